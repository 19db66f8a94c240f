//! Norms of rows and of columns, softmax and cross entropy.

pub mod compressed_norm;
pub mod cross_entropy;
pub(crate) mod moments;
pub mod norm;
pub mod norm_from_output;
pub mod norm_logits;
pub(crate) mod scale_shift;
pub mod scale_shift_from_output;
pub mod softmax;
