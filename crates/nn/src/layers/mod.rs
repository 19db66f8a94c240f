//! Layers as functions: each declares its parameters under `NAME` and applies them to its input.

mod attention;
mod convolution;
mod linear;
mod normalization;
mod recurrent;
mod relative_bias;
mod sequence;

use std::ops::Range;

use lessen_graph::Tensor;

use crate::context::Cx;
use crate::init::Init;

pub use attention::{Attend, attend, merge_heads, multi_head, split_heads};
pub use convolution::{
    Convolution, Gate, channel_shuffle, conv_transpose2d, conv2d, patch_embedding, squeeze_excitation,
};
pub use linear::{gpt2_linear, linear, linear_from, projection};
pub use normalization::{BatchNorm, Spread, batch_norm, batch_norm_of, group_norm, instance_norm};
pub use recurrent::{Recurrent, RecurrentStates, gru, gru_from, lstm, lstm_from};
pub use relative_bias::RelativeBias;
pub use sequence::{Convolution1d, conv_transpose1d, conv1d};

/// Layer normalization (Ba et al. 2016): `y = (x - mean) / sqrt(variance + eps) · weight + bias` over the last axis.
#[track_caller]
pub fn layer_norm(cx: Cx, name: &str, x: Tensor, eps: f64) -> Tensor {
    let cx = cx.enter(name);
    let weight = cx.param("weight", &[x.dim(-1)], Init::Ones);
    x.layer_norm(weight, cx.param("bias", &[x.dim(-1)], Init::Zeros), eps)
}

/// [`layer_norm`] without parameters: `y = (x - mean) / sqrt(variance + eps)` over the last axis.
#[track_caller]
pub fn plain_layer_norm(x: Tensor, eps: f64) -> Tensor {
    let every = |number: f64| x.trace().full(x.dtype(), &[x.dim(-1)], number);
    x.layer_norm(every(1.0), every(0.0), eps)
}

/// RMSNorm (Zhang and Sennrich 2019): `y = x / sqrt(mean(x²) + eps) · weight` over the last axis.
#[track_caller]
pub fn rms_norm(cx: Cx, name: &str, x: Tensor, eps: f64) -> Tensor {
    let cx = cx.enter(name);
    x.rms_norm(cx.param("weight", &[x.dim(-1)], Init::Ones), eps)
}

/// Embedding lookup: the rows of `NAME.weight`, `[rows, width]`, at `ids` (`i32`, any shape), as `[.., width]`.
#[track_caller]
pub fn embedding(cx: Cx, name: &str, ids: Tensor, (rows, width): (usize, usize), init: Init) -> Tensor {
    let cx = cx.enter(name);
    cx.param("weight", &[rows, width], init).gather(ids)
}

/// Learned position embeddings: the rows `places` of `NAME.weight`, `[rows, width]`, as `[length, width]`.
///
/// # Panics
/// If there are no such rows; see [`Model::check_length`](crate::Model::check_length).
#[track_caller]
pub fn positions(cx: Cx, name: &str, places: Range<usize>, (rows, width): (usize, usize), init: Init) -> Tensor {
    if places.end > rows {
        cx.trace().fail(format!("the positions {places:?} with only {rows}"));
    }
    let cx = cx.enter(name);
    let table = cx.param("weight", &[rows, width], init);
    table.slice(0, places.start, places.len())
}

/// Mean pooling: the mean of `x` (`f32[B, T, W]`) over the positions where the padding mask (`bool[B, T]`) is true, as
/// `[B, W]`. A row whose mask is all false gives zeros.
#[track_caller]
pub fn mean_pool(x: Tensor, mask: Tensor) -> Tensor {
    let real = mask.cast(x.dtype()).unsqueeze(-1);
    (x * real).sum_axes(&[1]) / real.sum_axes(&[1]).maximum(real.scalar_like(1.0))
}
