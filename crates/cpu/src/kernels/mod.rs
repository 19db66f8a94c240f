//! Kernels: the inner loops of operations, on blocks of rows or on whole values in memory, each with the entry by which
//! the `table` finds it.
//!
//! Loops are `unsafe` functions of raw pointers, since an output may lie exactly where an input lies and the executor
//! alone knows what lies where in the arena. Results depend on shapes and values alone: reductions have fixed lanes and
//! fixed trees, and no kernel looks at where memory lies.

#![allow(clippy::too_many_arguments, clippy::needless_range_loop)]

pub mod activation;
pub mod activation_from_output;
pub mod attention;
pub mod bits;
#[cfg(target_arch = "x86_64")]
mod byte_products;
pub mod cast;
mod coded_factors;
pub(crate) mod coded_sums;
#[cfg(target_arch = "x86_64")]
mod codes_avx2;
mod combine_rows;
pub mod compressed_norm;
pub mod copy;
pub mod cross_entropy;
pub mod elementwise;
mod fake_quantize;
pub mod few_rows;
pub mod gather;
pub mod gemm;
mod gemm_bf16;
pub mod grouped_matmul;
pub mod histogram;
mod images;
mod join;
pub(crate) mod kernel;
mod layouts;
mod map;
pub mod matmul;
mod moments;
#[cfg(target_arch = "x86_64")]
mod multiply;
mod nibbles;
#[cfg(target_arch = "x86_64")]
mod nibbles_avx2;
#[cfg(target_arch = "x86_64")]
mod nibbles_vnni;
pub mod norm;
pub mod norm_from_output;
pub mod norm_logits;
pub mod optimizer;
pub(crate) mod pairwise;
#[cfg_attr(not(target_arch = "x86_64"), path = "no_panels.rs")]
pub(crate) mod panels;
pub mod quantize;
mod quantize_by_range;
mod quantize_linear;
pub mod quantized_matmul;
pub mod random;
mod recurrent;
pub mod reduce;
mod reduce_axes;
pub(crate) mod reference;
pub mod rope;
mod row_kernel;
mod rows;
mod scale_shift;
pub mod scale_shift_from_output;
pub mod softmax;
pub(crate) mod stack;
pub(crate) mod table;
mod to_code;
#[cfg(target_arch = "x86_64")]
mod vnni;
mod whole;
mod widths;
#[cfg_attr(not(target_arch = "x86_64"), path = "no_words.rs")]
mod words;
mod zeros;

pub use rows::{Element, Rows};
