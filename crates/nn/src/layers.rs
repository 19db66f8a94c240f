//! Layers as functions: each declares its parameters under `NAME` and applies them to its input.

mod convolution;
mod normalization;

use std::ops::Range;

use lessen_graph::Tensor;
use lessen_graph::ops::attention::{AttentionOptions, PositionBias, Weighting, attention};

use crate::context::Context;
use crate::init::Init;
use crate::lora::adapt;
use crate::observations;
use crate::rotary::Rotary;

pub use convolution::{Convolution, Gate, channel_shuffle, conv2d, patch_embedding, squeeze_excitation};
pub use normalization::{BatchNorm, batch_norm, group_norm, instance_norm};

/// `y = x Wᵀ + b` for `x` of shape `[.., in]`, with `NAME.weight` of shape `[out, in]` (as in PyTorch's `nn.Linear`)
/// and `NAME.bias` of shape `[out]`, initially zero.
#[track_caller]
pub fn linear<'g>(cx: &Context<'g>, name: &str, x: Tensor<'g>, out: usize, init: Init) -> Tensor<'g> {
    linear_from(cx, name, x, out, [init, Init::Zeros])
}

/// [`linear`] with these initial values of weight and bias.
#[track_caller]
pub fn linear_from<'g>(
    cx: &Context<'g>,
    name: &str,
    x: Tensor<'g>,
    out: usize,
    [weight, bias]: [Init; 2],
) -> Tensor<'g> {
    let cx = cx.enter(name);
    let weight = cx.param("weight", &[out, x.dim(-1)], weight);
    adapt(&cx, x, x.matmul_t(weight), false) + cx.param("bias", &[out], bias)
}

/// `y = x Wᵀ` for `x` of shape `[.., in]`, with `NAME.weight` of shape `[out, in]`.
#[track_caller]
pub fn projection<'g>(cx: &Context<'g>, name: &str, x: Tensor<'g>, out: usize, init: Init) -> Tensor<'g> {
    let cx = cx.enter(name);
    let weight = cx.param("weight", &[out, x.dim(-1)], init);
    adapt(&cx, x, x.matmul_t(weight), false)
}

/// `y = x W + b` for `x` of shape `[.., in]`, with `NAME.weight` of shape `[in, out]` (as in GPT-2's `Conv1D`) and
/// `NAME.bias` of shape `[out]`, initially zero.
#[track_caller]
pub fn conv1d<'g>(cx: &Context<'g>, name: &str, x: Tensor<'g>, out: usize, init: Init) -> Tensor<'g> {
    let cx = cx.enter(name);
    let weight = cx.param("weight", &[x.dim(-1), out], init);
    adapt(&cx, x, x.matmul(weight), true) + cx.param("bias", &[out], Init::Zeros)
}

/// Layer normalization (Ba et al. 2016): `y = (x - mean) / sqrt(variance + eps) · weight + bias` over the last axis.
#[track_caller]
pub fn layer_norm<'g>(cx: &Context<'g>, name: &str, x: Tensor<'g>, eps: f64) -> Tensor<'g> {
    let cx = cx.enter(name);
    let weight = cx.param("weight", &[x.dim(-1)], Init::Ones);
    x.layer_norm(weight, cx.param("bias", &[x.dim(-1)], Init::Zeros), eps)
}

/// [`layer_norm`] without parameters: `y = (x - mean) / sqrt(variance + eps)` over the last axis.
#[track_caller]
pub fn plain_layer_norm(x: Tensor<'_>, eps: f64) -> Tensor<'_> {
    let every = |number: f64| x.trace().full(x.dtype(), &[x.dim(-1)], number);
    x.layer_norm(every(1.0), every(0.0), eps)
}

/// RMSNorm (Zhang and Sennrich 2019): `y = x / sqrt(mean(x²) + eps) · weight` over the last axis.
#[track_caller]
pub fn rms_norm<'g>(cx: &Context<'g>, name: &str, x: Tensor<'g>, eps: f64) -> Tensor<'g> {
    let cx = cx.enter(name);
    x.rms_norm(cx.param("weight", &[x.dim(-1)], Init::Ones), eps)
}

/// Embedding lookup: the rows of `NAME.weight`, `[rows, width]`, at `ids` (`i32`, any shape), as `[.., width]`.
#[track_caller]
pub fn embedding<'g>(
    cx: &Context<'g>,
    name: &str,
    ids: Tensor<'g>,
    (rows, width): (usize, usize),
    init: Init,
) -> Tensor<'g> {
    let cx = cx.enter(name);
    cx.param("weight", &[rows, width], init).gather(ids)
}

/// Learned position embeddings: the rows `places` of `NAME.weight`, `[rows, width]`, as `[length, width]`.
///
/// # Panics
/// If there are no such rows; see [`Model::check_length`](crate::Model::check_length).
#[track_caller]
pub fn positions<'g>(
    cx: &Context<'g>,
    name: &str,
    places: Range<usize>,
    (rows, width): (usize, usize),
    init: Init,
) -> Tensor<'g> {
    if places.end > rows {
        cx.trace().fail(format!("the positions {places:?} with only {rows}"));
    }
    let cx = cx.enter(name);
    let table = cx.param("weight", &[rows, width], init);
    table.slice(0, places.start, places.len())
}

/// Options of an attention layer.
#[derive(Clone, Copy, Debug)]
pub struct Attend<'g> {
    /// Number of heads of queries.
    pub heads: usize,
    /// How scores become weights.
    pub weighting: Weighting,
    /// For a learned weighting the weights of heads, `[H]`.
    pub weight: Option<Tensor<'g>>,
    /// What is added to scores for positions.
    pub bias: PositionBias<'g>,
    /// The positions of queries and keys, `i32[T]`, or of those of all sequences, `i32[B·T]`, and the angles by which
    /// [`multi_head`] and [`Attend::rotate`] rotate them.
    pub rotary: Option<(Tensor<'g>, Rotary)>,
    /// Whether a query attends to keys at and before its own position only.
    pub causal: bool,
    /// Keys that may be attended to, `bool[B, T]`; `None` means all.
    pub mask: Option<Tensor<'g>>,
    /// The starts of segments, `i32[S + 1]`; see [`Attention`](lessen_graph::ops::Attention).
    pub starts: Option<Tensor<'g>>,
    /// The position of the first query among the keys, `i32[]`, or `i32[B]` with one for each sequence; otherwise the
    /// queries are at the end.
    pub offset: Option<Tensor<'g>>,
    /// Dropout probability of attention weights in training.
    pub dropout: f64,
}

impl Default for Attend<'_> {
    /// Softmax in one head, every query attending to every key.
    fn default() -> Self {
        Attend {
            heads: 1,
            weighting: Weighting::Softmax,
            weight: None,
            bias: PositionBias::None,
            rotary: None,
            causal: false,
            mask: None,
            starts: None,
            offset: None,
            dropout: 0.0,
        }
    }
}

impl<'g> Attend<'g> {
    /// Rotates the heads of queries or keys, `[B, T, H, D]`, by their positions, if there are any.
    #[track_caller]
    pub fn rotate(&self, x: Tensor<'g>) -> Tensor<'g> {
        self.rotary.map_or(x, |(positions, rotary)| {
            let shape = x.shape();
            if positions.dim(0) == shape[1] {
                return rotary.rotate(x, positions);
            }
            let all = [1, shape[0] * shape[1], shape[2], shape[3]];
            rotary.rotate(x.reshape(&all), positions).reshape(&shape)
        })
    }
}

/// Multi-head attention (Vaswani et al. 2017): `softmax(q kᵀ / sqrt(D)) v` in every head, or with other weights and
/// positions, for `q` of shape `[B, Tq, H·D]`, `k` and `v` of shape `[B, Tk, G·D]`, where `G` divides `H` and each head
/// of `k` and `v` is that of `H / G` heads of `q`. The result has the shape of `q`.
#[track_caller]
pub fn multi_head<'g>(cx: &Context<'g>, q: Tensor<'g>, k: Tensor<'g>, v: Tensor<'g>, how: Attend<'g>) -> Tensor<'g> {
    let width = q.dim(-1) / how.heads;
    let [q, k, v] = [q, k, v].map(|x| split_heads(x, x.dim(-1) / width));
    merge_heads(attend(cx, how.rotate(q), how.rotate(k), v, how))
}

/// [`multi_head`] on tensors that are already split into heads, `[B, T, H, D]`, and rotated.
#[track_caller]
pub fn attend<'g>(cx: &Context<'g>, q: Tensor<'g>, k: Tensor<'g>, v: Tensor<'g>, how: Attend<'g>) -> Tensor<'g> {
    let dropout = (cx.training() && how.dropout > 0.0).then(|| (how.dropout, cx.key()));
    let options = AttentionOptions {
        weighting: how.weighting,
        weight: how.weight,
        bias: how.bias,
        causal: how.causal,
        scale: None,
        mask: how.mask,
        starts: how.starts,
        offset: how.offset,
        dropout,
    };
    observations::attention(cx, q, k, options);
    attention(q, k, v, options)
}

/// Reshapes `[B, T, H·D]` to `[B, T, H, D]`.
#[track_caller]
pub fn split_heads(x: Tensor<'_>, heads: usize) -> Tensor<'_> {
    let shape = x.shape();
    x.reshape(&[shape[0], shape[1], heads, shape[2] / heads])
}

/// Reshapes `[B, T, H, D]` to `[B, T, H·D]`.
#[track_caller]
pub fn merge_heads(x: Tensor<'_>) -> Tensor<'_> {
    let shape = x.shape();
    x.reshape(&[shape[0], shape[1], shape[2] * shape[3]])
}

/// Mean pooling: the mean of `x` (`f32[B, T, W]`) over the positions where the padding mask (`bool[B, T]`) is true, as
/// `[B, W]`. A row whose mask is all false gives zeros.
#[track_caller]
pub fn mean_pool<'g>(x: Tensor<'g>, mask: Tensor<'g>) -> Tensor<'g> {
    let real = mask.cast(x.dtype()).unsqueeze(-1);
    (x * real).sum_axes(&[1]) / real.sum_axes(&[1]).maximum(real.scalar_like(1.0))
}
