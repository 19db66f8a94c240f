//! Normalizations along the last axis and their derivatives, and moments of columns.

pub mod layer_norm;
pub mod log_softmax;
pub mod moments;
pub mod norm_logits;
pub mod rms_norm;
pub mod scale_shift;
pub mod softmax;
mod statistics;
pub mod temperature;

operations! {
    layer_norm::{LayerNorm, LayerNormBackward},
    log_softmax::{LogSoftmax},
    moments::{Moments},
    norm_logits::{NormLogits, NormLogitsBackward},
    rms_norm::{RmsNorm, RmsNormBackward},
    scale_shift::{ScaleShift, ScaleShiftSums},
    softmax::{Softmax, SoftmaxBackward},
}
