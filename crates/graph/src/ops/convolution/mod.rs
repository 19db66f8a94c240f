//! Convolution of images and its two derivatives, each written with the other two, so that derivatives of any order are
//! made of these three operations.
//!
//! Images are `[N, H, W, C]`: the channels of a pixel lie side by side, so that a tap of the kernel is a product of
//! pixels with a matrix, and a depthwise kernel runs along the channels. The weight is `[O, C / G, KH, KW]`, as
//! checkpoints have it, in parameters, gradients and optimizer states alike: the graph never permutes it. A device
//! brings it into the order that its products read when it packs it, which it does anyway, and writes a gradient back
//! in this order; both are small beside the products.

pub mod conv2d;
pub mod grad_input;
pub mod grad_weight;
mod one_dimension;
pub mod quantized_conv2d;
mod sizes;
mod transposed;
pub use crate::slide::Slide;
pub use one_dimension::Conv1dOptions;
pub use sizes::{Conv2dOptions, Conv2dSizes};

operations! {
    conv2d::{Conv2d},
    grad_input::{Conv2dGradInput},
    grad_weight::{Conv2dGradWeight},
    quantized_conv2d::{QuantizedConv2d},
}
