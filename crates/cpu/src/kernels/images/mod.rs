//! Kernels on images `[N, H, W, C]`: convolution and its derivatives, pooling, resizing.
//!
//! All but the gradients of weights compute each pixel of the result from some pixels of an image, whose rows and
//! columns are known when a plan is loaded (`reads`): the windows of a convolution, or, in its derivative, the windows
//! that a pixel lies in. So an operation and its derivative are one loop. Tasks are rows of the result. Windows of
//! 3 x 3 pixels over enough channels have fewer products than that (`winograd`).

mod blocks;
mod codes;
mod codes_depthwise;
mod convolution;
mod depthwise;
mod depthwise_weight;
mod direct;
mod factor;
mod max_pool;
mod pairs;
mod patches;
mod patches_weight;
mod products;
pub(super) mod reads;
mod resample;
pub(super) mod sums;
mod winograd;

pub(super) use codes::quantized_conv2d_kernel;
pub(super) use convolution::{conv2d_grad_input_kernel, conv2d_grad_weight_kernel, conv2d_kernel};
pub(super) use max_pool::{max_pool2d_gather_kernel, max_pool2d_kernel, max_pool2d_scatter_kernel};
pub(super) use resample::{resample2d_grad_kernel, resample2d_kernel};

use super::kernel::{Kernel, Types, WholeKernel};
use super::zeros::zeros;

/// The kernel for `f32` operands with elements; without elements results are zeros.
fn of_f32(types: &Types<'_>, kernel: impl FnOnce() -> Option<WholeKernel>) -> Option<Kernel> {
    if !types.floats_are_f32() {
        return None;
    }
    if types.any_empty() {
        return zeros(types).into();
    }
    kernel()?.into()
}
