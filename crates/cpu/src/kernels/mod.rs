//! Kernels: the inner loops of operations, on blocks of rows or on whole values in memory, each with the entry by which
//! the `table` finds it.
//!
//! A folder holds the kernels of a subject. Their loops are generic: plain Rust that is compiled for the baseline, AVX2
//! and AVX-512, and every machine runs it. Loops that are written for instructions are in `x86`, in a folder for each
//! set; on machines of other kinds `no_x86` is in its place.
//!
//! Loops are `unsafe` functions of raw pointers, since an output may lie exactly where an input lies and the executor
//! alone knows what lies where in the arena. Results depend on shapes and values alone: reductions have fixed lanes and
//! fixed trees, and no kernel looks at where memory lies.

#![allow(clippy::too_many_arguments, clippy::needless_range_loop)]

pub mod attention;
pub mod codes;
pub mod elementwise;
mod images;
pub(crate) mod kernel;
pub(crate) mod layouts;
mod map;
pub mod movement;
pub mod norms;
pub mod optimizer;
pub mod products;
mod recurrent;
pub(crate) mod reference;
mod row_function;
pub(crate) mod row_kernel;
pub(crate) mod rows;
pub mod sums;
pub(crate) mod table;
mod whole;
mod widths;
#[cfg_attr(not(target_arch = "x86_64"), path = "no_x86/mod.rs")]
pub(crate) mod x86;
mod zeros;

pub use rows::{Element, Rows};
