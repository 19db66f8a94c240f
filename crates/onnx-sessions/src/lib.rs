//! Sessions of ONNX files: what a file's nodes compute, and the conversion of its norms.
//!
//! [`Session`] answers for a model: products of floats and what is around them are compiled programs, all other nodes
//! are operators on arrays in memory. [`run_node`] computes one node by itself. [`Converter`] replaces norms of a file
//! where the results stay the same, and compares sessions of both.

#![forbid(unsafe_code)]

mod convert;
mod operators;
mod random;
mod session;

pub use convert::{
    Converter, Difference, LeftAsItIs, NormOperators, Report, Work, bounded_sizes, difference, difference_of_files,
    difference_on,
};
pub use lessen_rewrite::NormTarget;
pub use operators::run_node;
pub use random::random_values;
pub use session::Session;
