//! Operators on arrays in memory, exactly in the types that a file declares: integers wrap, 16-bit floats round and
//! overflow.
//!
//! Every operator of a file can be computed here. Products of floats and what is around them run as compiled programs
//! instead; what is left for this module are integers, shapes, texts, sequences and results whose
//! size depends on elements.
//!
//! A new operator is a function and a line in [`table`]'s groups.

mod broadcast;
mod control;
mod elementwise;
mod images;
mod learning;
mod movement;
mod node;
mod products;
mod real;
mod table;

pub use node::run_node;
pub(crate) use table::host_operator;
