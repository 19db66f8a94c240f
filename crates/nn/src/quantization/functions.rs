//! Numbers as the levels of a few bits: functions for any model, and for a search over bits.

use lessen_graph::Tensor;
use lessen_graph::ops::FakeQuantize;

/// The least scale, so that rows of zeros have one.
const LEAST_SCALE: f64 = f32::MIN_POSITIVE as f64;

/// Weights at the levels of these bits, from 2 to 8, symmetric about 0: for each index of `axis`, the greatest
/// magnitude `c` is the last level, `s = c / (2^(bits - 1) - 1)` (Wang et al. 2019). The derivative passes straight
/// through and does not see that the scale depends on the weights. In a kernel `[out, in, height, width]` and a matrix
/// `[out, in]` the axis is 0.
///
/// # Panics
/// If the bits are out of range, or there is no such axis.
#[track_caller]
pub fn quantize_weight(weight: Tensor, bits: u32, axis: usize) -> Tensor {
    let codes = FakeQuantize::symmetric(checked(weight, bits), axis);
    let others: Vec<usize> = (0..weight.rank()).filter(|other| *other != axis).collect();
    let size = weight.stop_gradient().abs();
    let most = if others.is_empty() {
        size
    } else {
        size.max_axes(&others)
    };
    weight.fake_quantize(codes, scale(most, codes), None)
}

/// Activations at the levels of these bits, from 2 to 8, in the range of `clip`, a tensor `[]` of magnitude `c`. With
/// `half_wave` they are not negative and have the levels 0 to `c`, `s = c / (2^bits - 1)`, else `-c` to `c`,
/// `s = c / (2^(bits - 1) - 1)`. The clip learns as in PACT and LSQ; see [`FakeQuantize`]. Of searches it is 6 at first
/// (Wang et al. 2019).
///
/// # Panics
/// If the bits are out of range, or `clip` is no number of the dtype of `x`.
#[track_caller]
pub fn quantize_in_range(x: Tensor, bits: u32, half_wave: bool, clip: Tensor) -> Tensor {
    let bits = checked(x, bits);
    let codes = match half_wave {
        true => FakeQuantize::unsigned(bits, 0),
        false => FakeQuantize::symmetric(bits, 0),
    };
    x.fake_quantize(codes, scale(clip.abs(), codes), None)
}

/// Rows `[rows, width]` at the levels of these bits, from 2 to 8, symmetric about 0, each in the range of its own
/// greatest magnitude.
#[track_caller]
pub fn quantize_by_rows(rows: Tensor, bits: u32) -> Tensor {
    quantize_weight(rows, bits, 0)
}

/// The scale of codes whose last level is `most`.
fn scale(most: Tensor, codes: FakeQuantize) -> Tensor {
    (most / codes.high as f64).maximum(most.scalar_like(LEAST_SCALE))
}

#[track_caller]
fn checked(x: Tensor, bits: u32) -> u32 {
    if !FakeQuantize::BITS.contains(&bits) {
        x.trace().fail(format!("{bits} bits; choose from 2 to 8"));
    }
    bits
}
