//! The memory planner: which forward values backward keeps, and how it has the others, for the least time within a
//! budget.
//!
//! [`blocks`] cuts a graph where few values lead from one part of the forward phase to the next. [`sample`] makes a
//! small graph of one block, with its part of backward, and plans it for a [way](ways) of having each value: the
//! schedule and the storage of the real planner say what a way keeps, what it takes at its peak, and how long it is.
//! Equal blocks share a sample. [`inversion`] finds blocks whose input follows from their output. [`compose`] chooses a
//! way for each block by dynamic programming, over single blocks and over segments of several, of which only the first
//! value is kept; [`relaxation`] tells it which choices cannot be the best. [`search`] goes from the fastest choices to
//! the smallest, and takes the first whose plan of the whole graph fits. [`exhaustive`] plans graphs with few values,
//! and those without blocks, in all ways.

mod blocks;
mod compose;
mod exhaustive;
mod inversion;
mod layers;
mod others;
mod policy;
mod relaxation;
mod sample;
mod search;
mod ways;

pub(crate) use exhaustive::{Family, are_few, within as within_all};
pub(crate) use layers::{Layers, Selection};
pub(crate) use search::within;
