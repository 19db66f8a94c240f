//! Layers as plain functions: each declares its parameters under its name and applies itself.

use lessen_graph::Tensor;
use lessen_graph::ops::attention::{AttentionOptions, attention};

use crate::context::Context;
use crate::init::Init;

/// `y = x Wᵀ + b` for `x` of shape `[.., in]`, with `NAME.weight` of shape `[out, in]` (as PyTorch's
/// `nn.Linear`) and `NAME.bias` of shape `[out]`, which starts at zero.
#[track_caller]
pub fn linear<'g>(cx: &Context<'g>, name: &str, x: Tensor<'g>, out: usize, init: Init) -> Tensor<'g> {
    cx.scope(name, |cx| {
        let weight = cx.param("weight", &[out, x.dim(-1)], init);
        x.matmul_t(weight) + cx.param("bias", &[out], Init::Zeros)
    })
}

/// `y = x W + b` for `x` of shape `[.., in]`, with `NAME.weight` of shape `[in, out]` (as GPT-2's `Conv1D`)
/// and `NAME.bias` of shape `[out]`, which starts at zero.
#[track_caller]
pub fn conv1d<'g>(cx: &Context<'g>, name: &str, x: Tensor<'g>, out: usize, init: Init) -> Tensor<'g> {
    cx.scope(name, |cx| {
        let weight = cx.param("weight", &[x.dim(-1), out], init);
        x.matmul(weight) + cx.param("bias", &[out], Init::Zeros)
    })
}

/// `y = (x - mean) / sqrt(variance + eps) · weight + bias` over the last axis.
#[track_caller]
pub fn layer_norm<'g>(cx: &Context<'g>, name: &str, x: Tensor<'g>, eps: f64) -> Tensor<'g> {
    cx.scope(name, |cx| {
        let weight = cx.param("weight", &[x.dim(-1)], Init::Ones);
        x.layer_norm(weight, cx.param("bias", &[x.dim(-1)], Init::Zeros), eps)
    })
}

/// `y = x / sqrt(mean(x²) + eps) · weight` over the last axis.
#[track_caller]
pub fn rms_norm<'g>(cx: &Context<'g>, name: &str, x: Tensor<'g>, eps: f64) -> Tensor<'g> {
    cx.scope(name, |cx| {
        x.rms_norm(cx.param("weight", &[x.dim(-1)], Init::Ones), eps)
    })
}

/// The rows of the table `NAME.weight` of shape `[rows, width]` that `ids` (`i32`, any shape) choose:
/// `[.., width]`.
#[track_caller]
pub fn embedding<'g>(
    cx: &Context<'g>,
    name: &str,
    ids: Tensor<'g>,
    (rows, width): (usize, usize),
    init: Init,
) -> Tensor<'g> {
    cx.scope(name, |cx| cx.param("weight", &[rows, width], init).gather(ids))
}

/// The first `length` rows of the table `NAME.weight` of shape `[rows, width]`: learned positions
/// `[length, width]`.
#[track_caller]
pub fn positions<'g>(
    cx: &Context<'g>,
    name: &str,
    length: usize,
    (rows, width): (usize, usize),
    init: Init,
) -> Tensor<'g> {
    assert!(length <= rows, "a length of {length} with only {rows} positions");
    cx.scope(name, |cx| {
        cx.param("weight", &[rows, width], init).slice(0, 0, length)
    })
}

/// How tokens attend to each other.
#[derive(Clone, Copy, Debug)]
pub struct Attend<'g> {
    /// Number of heads.
    pub heads: usize,
    /// Whether each position sees only itself and what comes before.
    pub causal: bool,
    /// Which keys are seen, `bool[B, T]`; all where there is none.
    pub mask: Option<Tensor<'g>>,
    /// Probability with which an attention weight is dropped in training.
    pub dropout: f64,
}

/// `softmax(q kᵀ / sqrt(D)) v` in every head, for `q` of shape `[B, Tq, H·D]`, and `k` and `v` of shape
/// `[B, Tk, H·D]`; the result has the shape of `q`.
#[track_caller]
pub fn multi_head<'g>(
    cx: &Context<'g>,
    q: Tensor<'g>,
    k: Tensor<'g>,
    v: Tensor<'g>,
    how: Attend<'g>,
) -> Tensor<'g> {
    let [q, k, v] = [q, k, v].map(|x| split_heads(x, how.heads));
    merge_heads(attend(cx, q, k, v, how))
}

/// [`multi_head`] on tensors that are already cut into heads: `[B, T, H, D]`.
#[track_caller]
pub fn attend<'g>(
    cx: &Context<'g>,
    q: Tensor<'g>,
    k: Tensor<'g>,
    v: Tensor<'g>,
    how: Attend<'g>,
) -> Tensor<'g> {
    let dropout = (cx.training() && how.dropout > 0.0).then(|| (how.dropout, cx.key()));
    attention(
        q,
        k,
        v,
        AttentionOptions {
            causal: how.causal,
            scale: None,
            mask: how.mask,
            dropout,
        },
    )
}

/// `[B, T, H·D]` as `[B, T, H, D]`.
#[track_caller]
pub fn split_heads(x: Tensor<'_>, heads: usize) -> Tensor<'_> {
    let shape = x.shape();
    x.reshape(&[shape[0], shape[1], heads, shape[2] / heads])
}

/// `[B, T, H, D]` as `[B, T, H·D]`.
#[track_caller]
pub fn merge_heads(x: Tensor<'_>) -> Tensor<'_> {
    let shape = x.shape();
    x.reshape(&[shape[0], shape[1], shape[2] * shape[3]])
}

/// The mean over the tokens of `x` (`f32[B, T, W]`) that `mask` (`bool[B, T]`) calls real: `[B, W]`. A row
/// without any gives zeros.
#[track_caller]
pub fn mean_pool<'g>(x: Tensor<'g>, mask: Tensor<'g>) -> Tensor<'g> {
    let real = mask.cast(x.dtype()).unsqueeze(-1);
    (x * real).sum_axes(&[1]) / real.sum_axes(&[1]).maximum(real.scalar_like(1.0))
}
