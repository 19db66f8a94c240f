//! Attention and rotary positions as single operators.

use lessen_base::Result;
use lessen_graph::{DType, Tensor, concat};

use super::Value;
use super::call::{Call, Operators, one};
use super::contributed_attention::projected;

pub(crate) const OPERATORS: Operators = &[("Attention", attention), ("RotaryEmbedding", rotary)];

/// Added to the score of a key that a query does not see.
const HIDDEN: f64 = -1e30;

/// A stack of heads `[batch, heads, length, width]`, from rows of all heads if it has three axes.
fn heads(call: &mut Call<'_>, input: usize, attribute: &str) -> Result<Tensor> {
    let x = call.tensor(input)?;
    let count = usize::try_from(call.int(attribute, 0)).unwrap_or(0);
    match x.shape()[..] {
        [_, _, _, _] => Ok(x),
        [batch, length, width] if count > 0 && width.is_multiple_of(count) => {
            let heads = x.reshape(&[batch, length, count, width / count]);
            Ok(heads.permute(&[0, 2, 1, 3]))
        }
        _ => call.unknown("attention of values of these extents"),
    }
}

/// Each head as often as a group of queries reads it.
fn repeated(call: &Call<'_>, x: Tensor, count: usize) -> Result<Tensor> {
    let shape = x.shape();
    let (batch, heads, length, width) = (shape[0], shape[1], shape[2], shape[3]);
    if heads == count {
        return Ok(x);
    }
    if heads == 0 || !count.is_multiple_of(heads) {
        return call.unknown("attention of this number of heads");
    }
    let each = x.reshape(&[batch, heads, 1, length, width]);
    let all = each.broadcast_to(&[batch, heads, count / heads, length, width]);
    Ok(all.reshape(&[batch, count, length, width]))
}

/// `softmax(scale Q K^T + mask) V`
fn attention(call: &mut Call<'_>) -> Result<Vec<Value>> {
    if call.node.proto.domain == "com.microsoft" {
        return projected(call);
    }
    let is_wanted = |output: usize| call.node.proto.output.get(output).is_some_and(|name| !name.is_empty());
    if call.has(4) || call.has(5) || call.has(6) || (1..4).any(is_wanted) {
        return call.unknown("attention with a cache, or with its scores as a result");
    }
    if call.float("softcap", 0.0) != 0.0 {
        return call.unknown("attention whose scores are capped");
    }
    let is_flat = call.ty(0)?.rank() == 3;
    let q = heads(call, 0, "q_num_heads")?;
    let (k, v) = (heads(call, 1, "kv_num_heads")?, heads(call, 2, "kv_num_heads")?);
    let (shape, keys) = (q.shape(), k.shape()[2]);
    let (k, v) = (repeated(call, k, shape[1])?, repeated(call, v, shape[1])?);
    let default = 1.0 / (shape[3].max(1) as f64).sqrt();
    let mut scores = q.matmul_t(k) * call.float("scale", default);
    if call.int("is_causal", 0) != 0 {
        let extents = [shape[2], keys];
        let [query, key] = [0, 1].map(|axis| call.trace.iota(DType::I32, &extents, axis));
        let hidden = call.trace.full(scores.dtype(), &extents, HIDDEN);
        scores = scores
            + key
                .gt(query)
                .select(hidden, hidden.scalar_like(0.0).broadcast_to(&extents));
    }
    if call.has(3) {
        let mask = call.tensor(3)?;
        scores = match mask.dtype() {
            DType::Bool => {
                let extents = scores.shape();
                let hidden = call.trace.full(scores.dtype(), &extents, HIDDEN);
                mask.broadcast_to(&extents).select(scores, hidden)
            }
            dtype => scores + mask.cast(if dtype.is_float() { scores.dtype() } else { dtype }),
        };
    }
    let y = scores.softmax().matmul(v);
    if !is_flat {
        return one(y);
    }
    let width = shape[1] * y.shape()[3];
    one(y.permute(&[0, 2, 1, 3]).reshape(&[shape[0], shape[2], width]))
}

/// Rotates pairs of elements by angles whose cosines and sines are given, for each position or by its number.
fn rotary(call: &mut Call<'_>) -> Result<Vec<Value>> {
    if call.int("interleaved", 0) != 0 {
        return call.unknown("a rotation of neighbours");
    }
    let is_flat = call.ty(0)?.rank() == 3;
    let x = heads(call, 0, "num_heads")?;
    let (mut cos, mut sin) = (call.tensor(1)?, call.tensor(2)?);
    if call.has(3) {
        let positions = call.tensor(3)?;
        (cos, sin) = (cos.gather(positions), sin.gather(positions));
    }
    let (shape, half) = (x.shape(), cos.ty().last());
    let width = shape[3];
    if cos.rank() != 3 || 2 * half > width || call.int("rotary_embedding_dim", 0) > width as i64 {
        return call.unknown("a rotation of these extents");
    }
    let by_position = |x: Tensor| x.unsqueeze(1);
    let (cos, sin) = (by_position(cos), by_position(sin));
    let (a, b) = (x.slice(-1, 0, half), x.slice(-1, half, half));
    let mut parts = vec![a * cos - b * sin, b * cos + a * sin];
    if 2 * half < width {
        parts.push(x.slice(-1, 2 * half, width - 2 * half));
    }
    let y = concat(&parts, -1);
    if !is_flat {
        return one(y);
    }
    one(y
        .permute(&[0, 2, 1, 3])
        .reshape(&[shape[0], shape[2], shape[1] * width]))
}
