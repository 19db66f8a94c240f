//! Multi-head attention.

use lessen_graph::Tensor;
use lessen_graph::ops::attention::{AttentionOptions, PositionBias, Weighting, attention};

use super::relative_bias::RelativeBias;
use crate::context::Cx;
use crate::observations;
use crate::rotary::Rotary;

/// Options of an attention layer.
#[derive(Clone, Copy, Debug)]
pub struct Attend {
    /// Number of heads of queries.
    pub heads: usize,
    /// How scores become weights.
    pub weighting: Weighting,
    /// For a learned weighting the weights of heads, `[H]`.
    pub weight: Option<Tensor>,
    /// Bias of scores by positions.
    pub bias: PositionBias,
    /// Positions of queries and keys, and the angles by which [`multi_head`] and [`Attend::rotate`] rotate them. The
    /// positions are `i32[T]` if all sequences have the same, and `i32[B·T]` otherwise.
    pub rotary: Option<(Tensor, Rotary)>,
    /// Learned bias of scores by the distance of query and key.
    pub relative: Option<RelativeBias>,
    /// Whether a query attends to keys at and before its own position only.
    pub causal: bool,
    /// Keys that may be attended to, `bool[B, T]`; `None` means all.
    pub mask: Option<Tensor>,
    /// The starts of sequences, `i32[S + 1]`; see [`Attention`](lessen_graph::ops::Attention).
    pub starts: Option<Tensor>,
    /// The position of the first query among the keys, `i32[]`, or `i32[B]` with one for each sequence; otherwise the
    /// queries are at the end.
    pub offset: Option<Tensor>,
    /// Dropout probability of attention weights in training.
    pub dropout: f64,
}

impl Default for Attend {
    /// Softmax in one head, every query attending to every key.
    fn default() -> Self {
        Attend {
            heads: 1,
            weighting: Weighting::Softmax,
            weight: None,
            bias: PositionBias::None,
            rotary: None,
            relative: None,
            causal: false,
            mask: None,
            starts: None,
            offset: None,
            dropout: 0.0,
        }
    }
}

impl Attend {
    /// Rotates the heads of queries or keys, `[B, T, H, D]`, by their positions, if there are any.
    #[track_caller]
    pub fn rotate(&self, x: Tensor) -> Tensor {
        self.rotary.map_or(x, |(positions, rotary)| {
            let shape = x.shape();
            if shape.len() != 4 {
                x.trace()
                    .fail(format!("{} has no heads, which are the third of four axes", x.ty()));
            }
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
/// of `k` and `v` belongs to `H / G` heads of `q`. The result has the shape of `q`.
#[track_caller]
pub fn multi_head(cx: Cx, q: Tensor, k: Tensor, v: Tensor, how: Attend) -> Tensor {
    let all = q.dim(-1);
    if how.heads == 0 || !all.is_multiple_of(how.heads) || all == 0 {
        cx.trace()
            .fail(format!("queries {} do not divide into {} heads", q.ty(), how.heads));
    }
    let width = all / how.heads;
    let [q, k, v] = [q, k, v].map(|x| split_heads(x, x.dim(-1) / width));
    merge_heads(attend(cx, how.rotate(q), how.rotate(k), v, how))
}

/// [`multi_head`] on tensors that are already split into heads, `[B, T, H, D]`, and rotated.
///
/// # Panics
/// If there is a relative bias of another number of heads or tokens.
#[track_caller]
pub fn attend(cx: Cx, q: Tensor, k: Tensor, v: Tensor, how: Attend) -> Tensor {
    let dropout = cx.drops(how.dropout).then(|| (how.dropout, cx.key()));
    let (q, k, scale) = match how.relative {
        Some(relative) => relative.beside(q, k),
        None => (q, k, None),
    };
    let options = AttentionOptions {
        weighting: how.weighting,
        weight: how.weight,
        bias: how.bias,
        causal: how.causal,
        scale,
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
pub fn split_heads(x: Tensor, heads: usize) -> Tensor {
    let shape = x.shape();
    if shape.len() != 3 || heads == 0 {
        x.trace().fail(format!("{} does not divide into {heads} heads", x.ty()));
    }
    x.reshape(&[shape[0], shape[1], heads, shape[2] / heads])
}

/// Reshapes `[B, T, H, D]` to `[B, T, H·D]`.
#[track_caller]
pub fn merge_heads(x: Tensor) -> Tensor {
    let shape = x.shape();
    if shape.len() != 4 {
        x.trace()
            .fail(format!("{} has no heads, which are the third of four axes", x.ty()));
    }
    x.reshape(&[shape[0], shape[1], shape[2] * shape[3]])
}
