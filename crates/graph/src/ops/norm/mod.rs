//! Normalizations along the last axis and their derivatives, and moments of columns.

pub mod crms_norm;
mod groups;
pub mod layer_norm;
pub mod layer_norm_from_output;
pub mod log_softmax;
pub mod moments;
pub mod norm_logits;
pub mod rms_norm;
pub mod rms_norm_from_output;
pub mod scale_shift;
pub mod scale_shift_from_output;
pub mod scale_shift_sums_from_output;
pub mod softmax;
mod statistics;

operations! {
    crms_norm::{CrmsNorm, CrmsNormBackward},
    layer_norm::{LayerNorm, LayerNormBackward},
    layer_norm_from_output::{LayerNormBackwardFromOutput},
    log_softmax::{LogSoftmax},
    moments::{Moments},
    norm_logits::{NormLogits, NormLogitsBackward},
    rms_norm::{RmsNorm, RmsNormBackward},
    rms_norm_from_output::{RmsNormBackwardFromOutput},
    scale_shift::{ScaleShift, ScaleShiftSums},
    scale_shift_from_output::{ScaleShiftFromOutput},
    scale_shift_sums_from_output::{ScaleShiftSumsFromOutput},
    softmax::{Softmax, SoftmaxBackward},
}
