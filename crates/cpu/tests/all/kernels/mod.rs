//! Kernels against plain `f64`, at every CPU level.

mod activation;
mod activation_from_output;
mod attention;
mod bits;
mod cast;
mod compressed_norm;
mod copy;
mod elementwise;
mod few_rows;
mod histogram;
mod images;
mod levels;
mod matmul;
mod norm;
mod norm_from_output;
mod norm_logits;
mod optimizer;
mod pools;
mod product_cuts;
mod quantize;
mod quantized_matmul;
mod random;
mod reduce;
mod rope;
mod softmax;
pub mod support;
mod updates;
