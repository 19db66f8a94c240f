//! The memory planner: decides which forward values backward keeps, and how it gets the others, for the least time
//! within a budget.
//!
//! [`blocks`] cuts the forward phase where few values are alive. [`sample`] makes a small graph of one block with its
//! part of backward, and plans it once for each [way](ways) that the block could keep and recompute its values: that
//! plan tells how many bytes the way keeps, how many it takes at its peak, and how long it takes. Equal blocks share a
//! sample. [`inversion`] finds blocks whose input can be computed from their output. [`compose`] chooses a way for each
//! block by dynamic programming, over single blocks and over segments; [`relaxation`] tells it which choices cannot be
//! the best. [`search`] goes through the choices from the fastest to the smallest and takes the first whose plan of the
//! whole graph fits the budget. [`exhaustive`] plans graphs with few values, and graphs without blocks, in all ways.

mod block;
mod blocked_graph;
mod blocks;
mod compose;
mod exhaustive;
mod inversion;
mod other_blocks;
mod policy;
mod relaxation;
mod sample;
mod search;
mod ways;

pub(crate) use blocked_graph::{BlockedGraph, Selection};
pub(crate) use exhaustive::{Alternatives, are_few, within as within_all};
pub(crate) use search::within;
