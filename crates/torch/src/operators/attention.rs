//! Scaled dot-product attention.

use lessen_base::Result;
use lessen_graph::ops::Permute;
use lessen_graph::{AttentionOptions, DType, Tensor, attention};

use crate::call::{Call, Operators, one};
use crate::masks::AttentionMask;
use crate::value::Value;

pub const OPERATORS: Operators = &[("scaled_dot_product_attention", attend)];

/// The order of axes between `[B, H, T, D]` and `[B, T, H, D]`.
const SWAPPED: [usize; 4] = [0, 2, 1, 3];

/// Added to the score of a key that a query does not see.
const HIDDEN: f64 = -1e30;

/// A tensor with heads and steps swapped; where it was swapped, the one before.
fn swapped(x: Tensor) -> Tensor {
    let trace = x.trace();
    let before = trace.with_graph(|graph| {
        let node = &graph.nodes[graph.producer(x.id())?.index()];
        let is_swapped = node.op.downcast_ref::<Permute>()?.axes == SWAPPED;
        is_swapped.then(|| node.inputs[0])
    });
    before.map_or_else(|| x.permute(&SWAPPED), |before| trace.tensor(before))
}

/// Queries, keys or values `[.., H, T, D]` with four axes.
fn of_four_axes(call: &Call<'_, '_>, name: &str) -> Result<Tensor> {
    let x = call.tensor(name)?;
    match x.rank() {
        4 => Ok(x),
        3 => Ok(x.unsqueeze(1)),
        2 => Ok(x.reshape(&[1, 1, x.shape()[0], x.shape()[1]])),
        _ => call.lacks("attention of more than four axes; reshape the first ones into one"),
    }
}

fn attend(call: &mut Call<'_, '_>) -> Result<Value> {
    let (q, k, v) = (
        of_four_axes(call, "query")?,
        of_four_axes(call, "key")?,
        of_four_axes(call, "value")?,
    );
    let (queries, keys) = (q.shape(), k.shape());
    let shape = [
        &call.tensor("query")?.shape()[..q.rank().min(call.tensor("query")?.rank()) - 1],
        &[v.dim(-1)],
    ]
    .concat();
    let p = call.float("dropout_p", 0.0)?;
    let dropout = (p > 0.0 && call.cx().training()).then(|| (p, call.cx().key()));
    let scale = call.has("scale").then(|| call.float("scale", 1.0)).transpose()?;
    let mut causal = call.truth("is_causal");
    let mut mask = call.optional("attn_mask")?;
    let mut seen = None;
    if let Some(own) = mask
        && own.dtype() == DType::Bool
    {
        let extents = [queries[0], queries[2], keys[2]];
        let own = if call.tensor("query")?.rank() == 3 && own.rank() == 3 {
            own.unsqueeze(1)
        } else {
            own
        };
        let shared = &mut *call.surroundings;
        if let Some(AttentionMask {
            causal: is_causal,
            keys,
        }) = shared.masks.of_attention(&mut shared.known, own, extents)
        {
            (causal, seen, mask) = (causal || is_causal, keys, None);
        }
    }
    if mask.is_none() && (!causal || queries[2] == keys[2]) && queries[1].is_multiple_of(keys[1].max(1)) {
        let options = AttentionOptions {
            causal,
            scale,
            mask: seen,
            dropout,
            ..AttentionOptions::default()
        };
        let y = attention(swapped(q), swapped(k), swapped(v), options);
        let y = y.permute(&SWAPPED);
        return one(if y.shape() == shape { y } else { y.reshape(&shape) });
    }
    call.note("attention has a mask of another form than causal or by keys, and is traced as products and a softmax");
    let scale = scale.unwrap_or_else(|| 1.0 / (q.dim(-1).max(1) as f64).sqrt());
    let (k, v) = (repeated(k, queries[1]), repeated(v, queries[1]));
    let mut scores = q.matmul_t(k) * scale;
    let hidden = scores.scalar_like(HIDDEN);
    if causal {
        let extents = [queries[2], keys[2]];
        let [query, key] = [0, 1].map(|axis| call.trace().iota(DType::I32, &extents, axis));
        scores = key.le(query).select(scores, hidden);
    }
    if let Some(mask) = mask {
        let mask = if q.rank() > call.tensor("query")?.rank() && mask.rank() == 3 {
            mask.unsqueeze(1)
        } else {
            mask
        };
        scores = match mask.dtype() {
            DType::Bool => mask.select(scores, hidden),
            _ => scores + mask.cast(scores.dtype()),
        };
    }
    let weights = scores.softmax();
    let weights = if dropout.is_some() {
        call.cx().dropout(weights, p)
    } else {
        weights
    };
    let y = weights.matmul(v);
    one(if y.shape() == shape { y } else { y.reshape(&shape) })
}

/// Each head as often as a group of queries reads it.
fn repeated(x: Tensor, heads: usize) -> Tensor {
    let [batch, own, length, width] = x.shape()[..] else {
        return x;
    };
    if own == heads || own == 0 {
        return x;
    }
    let wide = x.reshape(&[batch, own, 1, length, width]);
    let wide = wide.broadcast_to(&[batch, own, heads / own, length, width]);
    wide.reshape(&[batch, heads, length, width])
}
