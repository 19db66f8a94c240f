//! Products of matrices.

pub mod few_rows;
pub mod gemm;
pub(crate) mod gemm_bf16;
pub mod matmul;
pub(crate) mod stack;
