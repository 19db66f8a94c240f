//! Kernels: the inner loops of operations, single-threaded, on blocks of rows in memory.
//!
//! They are `unsafe` functions of raw pointers, since an output may lie exactly where an input lies and the executor
//! alone knows what lies where in the arena. Results depend on shapes and values alone: reductions have fixed lanes and
//! fixed trees, and no kernel looks at where memory lies.

#![allow(clippy::too_many_arguments, clippy::needless_range_loop)]

pub mod activation;
pub mod cast;
pub mod elementwise;
mod map;
mod rows;

pub use rows::{Element, Rows};
