//! Attention of com.microsoft: with its own projection, in floats or as a product of integers, and of several heads.

use lessen_base::Result;
use lessen_graph::{DType, Tensor, concat};

use super::Value;
use super::call::{Call, Operators};
use super::quantized::{Scaled, scaled_product};

pub(crate) const OPERATORS: Operators = &[("MultiHeadAttention", of_heads), ("QAttention", of_integers)];

/// Added to the score of a key that a query does not see.
const HIDDEN: f64 = -1e30;

/// The numbers of a node's inputs.
struct Inputs {
    /// Which keys are there.
    padding: usize,
    /// What is added to scores.
    bias: usize,
    /// Keys and values of earlier positions.
    past: usize,
}

/// No input has this number.
const NONE: usize = usize::MAX;

/// Queries, keys and values, each by batch, position and feature.
type Three = [Tensor; 3];

/// Whether an output of a node has a name.
fn is_wanted(call: &Call<'_>, output: usize) -> bool {
    let name = call.node.proto.output.get(output);
    name.is_some_and(|name| !name.is_empty())
}

/// Refuses what changes the result and is not followed.
fn plain(call: &Call<'_>) -> Result<()> {
    let attributes = ["do_rotary", "past_present_share_buffer"];
    if attributes.into_iter().any(|name| call.int(name, 0) != 0) || call.has_narrow_floats() {
        return call.unknown("attention with rotated positions, a shared cache, or in another precision");
    }
    Ok(())
}

/// `Attention(input, weights, bias, mask_index, past, attention_bias)`.
pub(super) fn projected(call: &mut Call<'_>) -> Result<Vec<Value>> {
    plain(call)?;
    let (x, weights) = (call.tensor(0)?, call.tensor(1)?);
    if call.has(6) || x.rank() != 3 || weights.rank() != 2 {
        return call.unknown("attention of values of these extents");
    }
    let columns = weights.shape()[1];
    let widths = match call.ints("qkv_hidden_sizes").filter(|sizes| !sizes.is_empty()) {
        Some(sizes) => sizes.iter().filter_map(|size| usize::try_from(*size).ok()).collect(),
        None => vec![columns / 3; 3],
    };
    let all = x.matmul(weights);
    let all = if call.has(2) { all + call.tensor(2)? } else { all };
    let three = parts(call, all, &widths)?;
    let inputs = Inputs {
        padding: 3,
        bias: 5,
        past: 4,
    };
    attend(call, three, &inputs)
}

/// `QAttention(input, weight, bias, input_scale, weight_scale, mask_index, input_zero_point, weight_zero_point, past)`.
fn of_integers(call: &mut Call<'_>) -> Result<Vec<Value>> {
    plain(call)?;
    let a = call.codes(0)?;
    let zero = call.zero(6, a)?;
    let scale = call.tensor(3)?;
    let scaled = Scaled {
        weight: 1,
        scale: 4,
        zero: 7,
        bias: 2,
    };
    let all = scaled_product(call, (a.tensor, scale, zero), &scaled)?;
    let columns = all.ty().last();
    let three = parts(call, all, &[columns / 3; 3])?;
    let inputs = Inputs {
        padding: 5,
        bias: NONE,
        past: 8,
    };
    attend(call, three, &inputs)
}

/// The parts of features of these widths.
fn parts(call: &Call<'_>, all: Tensor, widths: &[usize]) -> Result<Three> {
    let &[of_queries, of_keys, of_values] = widths else {
        return call.unknown("attention with other than three widths");
    };
    let sum = of_queries
        .checked_add(of_keys)
        .and_then(|sum| sum.checked_add(of_values));
    if all.rank() != 3 || sum != Some(all.ty().last()) || of_queries != of_keys {
        return call.unknown("attention of values of these extents");
    }
    Ok([
        all.slice(-1, 0, of_queries),
        all.slice(-1, of_queries, of_keys),
        all.slice(-1, of_queries + of_keys, of_values),
    ])
}

/// `MultiHeadAttention(query, key, value, bias, key_padding_mask, attention_bias)`.
fn of_heads(call: &mut Call<'_>) -> Result<Vec<Value>> {
    plain(call)?;
    if (6..10).any(|input| call.has(input)) || (1..4).any(|output| is_wanted(call, output)) {
        return call.unknown("attention with a cache, or with its scores as a result");
    }
    let three = [call.tensor(0)?, call.tensor(1)?, call.tensor(2)?];
    if three.iter().any(|x| x.rank() != 3) {
        return call.unknown("packed queries, keys and values");
    }
    let three = if call.has(3) {
        let bias = call.tensor(3)?;
        let mut first = 0;
        let widths = three.map(|x| x.ty().last());
        if bias.shape() != [widths.iter().sum::<usize>()] {
            return call.unknown("a bias that does not fit queries, keys and values");
        }
        three.map(|x| {
            let width = x.ty().last();
            first += width;
            x + bias.slice(-1, first - width, width)
        })
    } else {
        three
    };
    let inputs = Inputs {
        padding: 4,
        bias: 5,
        past: NONE,
    };
    attend(call, three, &inputs)
}

/// `softmax(scale Q K^T + bias + padding) V`, and keys and values after earlier ones where they are a result.
fn attend(call: &mut Call<'_>, three: Three, inputs: &Inputs) -> Result<Vec<Value>> {
    let count = usize::try_from(call.int("num_heads", 0)).unwrap_or(0);
    let heads = |x: Tensor| match x.shape()[..] {
        [batch, length, width] if count > 0 && width > 0 && width.is_multiple_of(count) => {
            let heads = x.reshape(&[batch, length, count, width / count]);
            Ok(heads.permute(&[0, 2, 1, 3]))
        }
        _ => call.unknown("attention of this number of heads"),
    };
    let [q, mut k, mut v] = [heads(three[0])?, heads(three[1])?, heads(three[2])?];
    let mut past = 0;
    if inputs.past != NONE && call.has(inputs.past) {
        let given = call.tensor(inputs.past)?;
        let &[2, _, _, length, _] = &given.shape()[..] else {
            return call.unknown("earlier positions of these extents");
        };
        past = length;
        if length > 0 {
            let earlier = |half: usize| given.slice(0, half, 1).reshape(&given.shape()[1..]);
            (k, v) = (concat(&[earlier(0), k], 2), concat(&[earlier(1), v], 2));
        }
    }
    let (batch, queries, keys) = (q.shape()[0], q.shape()[2], k.shape()[2]);
    let scale = match call.float("scale", 0.0) {
        0.0 => 1.0 / (q.shape()[3] as f64).sqrt(),
        scale => scale,
    };
    let mut scores = q.matmul_t(k) * scale;
    if inputs.bias != NONE && call.has(inputs.bias) {
        scores = scores + call.tensor(inputs.bias)?;
    }
    if call.has(inputs.padding) {
        let there = padding(call, inputs.padding, [batch, queries, keys])?;
        let filler = call
            .trace
            .full(DType::F32, &[1, 1, 1, 1], call.float("mask_filter_value", -10000.0));
        scores = scores + there.select(filler.scalar_like(0.0), filler);
    }
    if call.int("unidirectional", 0) != 0 {
        let [query, key] = [0, 1].map(|axis| call.trace.iota(DType::I32, &[queries, keys], axis));
        let hidden = key.gt(query + past as f64);
        scores = scores + hidden.select(scores.scalar_like(HIDDEN), scores.scalar_like(0.0));
    }
    let y = scores.softmax().matmul(v);
    let width = y.shape()[1] * y.shape()[3];
    let y = y.permute(&[0, 2, 1, 3]).reshape(&[batch, queries, width]);
    let mut outputs = vec![Value::Traced(y)];
    if inputs.past != NONE && is_wanted(call, 1) {
        if k.shape() != v.shape() {
            return call.unknown("keys and values of different widths as one result");
        }
        outputs.push(Value::Traced(concat(&[k.unsqueeze(0), v.unsqueeze(0)], 0)));
    }
    Ok(outputs)
}

/// For each batch, query and key whether the key is there, as `[B, 1, Q or 1, K]`: from lengths, ends and starts, or a
/// mask.
fn padding(call: &mut Call<'_>, input: usize, [batch, queries, keys]: [usize; 3]) -> Result<Tensor> {
    let given = call.tensor(input)?;
    if given.dtype() != DType::I32 {
        return call.unknown("padding that is not integers");
    }
    let key = call.trace.iota(DType::I32, &[1, 1, 1, keys], 3);
    let line = |part: Tensor| part.reshape(&[batch, 1, 1, 1]);
    Ok(match given.shape()[..] {
        [count] if count == batch => key.lt(line(given)),
        [count] if count == 2 * batch => {
            let (ends, starts) = (line(given.slice(0, 0, batch)), line(given.slice(0, batch, batch)));
            key.lt(ends).and(key.ge(starts))
        }
        [rows, columns] if rows == batch && columns == keys => {
            let given = given.reshape(&[batch, 1, 1, keys]);
            given.gt(given.scalar_like(0.0))
        }
        [rows, lines, columns] if rows == batch && lines == queries && columns == keys => {
            let given = given.reshape(&[batch, 1, queries, keys]);
            given.gt(given.scalar_like(0.0))
        }
        _ => return call.unknown("padding of these extents"),
    })
}
