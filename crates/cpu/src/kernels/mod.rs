//! Kernels: the inner loops of operations, single-threaded, on blocks of rows in memory.
//!
//! They are `unsafe` functions of raw pointers, since an output may lie exactly where an input lies and the
//! executor alone knows what lies where in the arena. Results depend on shapes and values alone: reductions
//! have fixed lanes and fixed trees, and no kernel looks at where memory lies.

#![allow(clippy::too_many_arguments, clippy::needless_range_loop)]

pub mod activation;
pub mod attention;
mod attention_backward;
pub mod cast;
pub mod copy;
pub mod cross_entropy;
pub mod elementwise;
pub mod gather;
pub mod gemm;
mod map;
pub mod norm;
pub mod optimizer;
pub mod random;
pub mod reduce;
mod rows;
pub mod softmax;

pub use rows::{Element, Rows};
