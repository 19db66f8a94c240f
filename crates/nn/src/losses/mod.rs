//! Losses as functions of tensors: scalars of the dtype of their arguments, means over elements or rows as each one
//! says.
//!
//! Arguments have one shape and one dtype of floats: nothing is broadcast. Derivatives of any order are taken for each
//! of them; [`stop_gradient`] makes one a constant. The cross entropy of classes is [`cross_entropy`].
//!
//! [`stop_gradient`]: lessen_graph::Tensor::stop_gradient
//! [`cross_entropy`]: lessen_graph::Tensor::cross_entropy

mod check;
mod classification;
mod embedding;
mod regression;

pub use classification::{binary_cross_entropy, hinge, kl_divergence};
pub use embedding::{cosine_embedding, cosine_similarity, triplet_margin};
pub use regression::{huber, mae, mse, smooth_l1};
