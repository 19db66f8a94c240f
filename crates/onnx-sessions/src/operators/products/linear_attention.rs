//! Attention with a state in place of earlier keys and values.

use lessen_base::{Error, Result};

use super::contributed_attention::split;
use super::heads::exchanged;
use super::sizes::{check_work, room};
use crate::operators::real::{Real, float_of, in_reals, rounded};
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue};

pub(crate) const OPERATORS: HostOperators = &[("", "LinearAttention", linear_attention)];

fn linear_attention(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let queries = call.tensor(0)?;
    in_reals!(queries, linear_attention_of(call, queries))
}

/// An input by batch, position and feature.
fn features(tensor: &HostTensor) -> Result<[usize; 3]> {
    <[usize; 3]>::try_from(tensor.shape())
        .map_err(|_| Error::user(format!("one of its inputs has {} axes in place of 3", tensor.rank())))
}

/// Factors of each batch, position and head, or of each feature of a key: their elements, and how many a position has.
struct Gates<R> {
    all: Vec<R>,
    each: usize,
}

impl<R: Real> Gates<R> {
    fn of(call: &HostCall<'_>, input: usize, around: [usize; 2], widths: &[usize]) -> Result<Option<Gates<R>>> {
        let Some(tensor) = call.optional(input)? else {
            return Ok(None);
        };
        let [batch, length, each] = features(tensor)?;
        if [batch, length] != around || !widths.contains(&each) {
            return call.refused(format!("its input {input} does not fit its keys"));
        }
        let all = R::read(tensor)?.into_owned();
        Ok(Some(Gates { all, each }))
    }

    /// The factors of a position that belong to one of `heads` heads.
    fn part(&self, position: usize, head: usize, heads: usize) -> &[R] {
        let line = &self.all[position * self.each..(position + 1) * self.each];
        let width = self.each / heads;
        if width == 0 {
            line
        } else {
            &line[head * width..(head + 1) * width]
        }
    }
}

fn linear_attention_of<R: Real>(call: &HostCall<'_>, tensor: &HostTensor) -> Result<Vec<HostValue>> {
    let (key, value) = (call.tensor(1)?, call.tensor(2)?);
    let (q_heads, kv_heads) = (call.int("q_num_heads", 0), call.int("kv_num_heads", 0));
    let queries = split(R::read(tensor)?.into_owned(), features(tensor)?, q_heads)?;
    let keys = split(R::read(key)?.into_owned(), features(key)?, kv_heads)?;
    let values = split(R::read(value)?.into_owned(), features(value)?, kv_heads)?;
    let [batch, heads, length, width] = keys.shape();
    let value_width = values.width;
    let fits = queries.batch == batch
        && queries.length == length
        && queries.width == width
        && values.shape() == [batch, heads, length, value_width]
        && queries.heads.is_multiple_of(heads);
    if !fits {
        return call.refused("the extents of its queries, keys and values do not fit");
    }
    let (is_gated, is_delta) = match call.text("update_rule").as_deref().unwrap_or("gated_delta") {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return call.refused(format!("its update_rule {other} is not known")),
    };
    let decays = Gates::<R>::of(call, 4, [batch, length], &[heads, heads * width])?;
    let rates = Gates::<R>::of(call, 5, [batch, length], &[heads, 1])?;
    if decays.is_some() != is_gated || rates.is_some() != is_delta {
        return call.refused("its decay or beta does not belong to its update_rule");
    }
    let state_shape = [batch, heads, width, value_width];
    let (mut states, state_element) = match call.optional(3)? {
        Some(past) if past.shape() == state_shape => (R::read(past)?.into_owned(), float_of(past)?),
        Some(_) => return call.refused("its past state does not fit"),
        None => (vec![R::ZERO; room(&state_shape)?], float_of(tensor)?),
    };
    let scale = match call.float("scale", 0.0) {
        0.0 => 1.0 / (width as f64).sqrt(),
        scale => scale,
    };
    let scale = R::of_f64(scale);
    check_work(&[batch, queries.heads, length, width, value_width])?;
    let mut sums = vec![R::ZERO; room(&[batch, queries.heads, length, value_width])?];
    let group = queries.heads / heads;
    for (stack, state) in states.chunks_exact_mut(width * value_width).enumerate() {
        let (b, head) = (stack / heads, stack % heads);
        for at in 0..length {
            let line = |all: &[R], width: usize| {
                let first = (stack * length + at) * width;
                all[first..first + width].to_vec()
            };
            let (key, mut value) = (line(&keys.all, width), line(&values.all, value_width));
            if let Some(decays) = &decays {
                let decays = decays.part(b * length + at, head, heads);
                for (row, line) in state.chunks_exact_mut(value_width).enumerate() {
                    let decay = decays[row.min(decays.len() - 1)].exp();
                    line.iter_mut().for_each(|x| *x = *x * decay);
                }
            }
            if let Some(rates) = &rates {
                let rate = rates.part(b * length + at, head, heads)[0];
                for (line, key) in state.chunks_exact(value_width).zip(&key) {
                    value
                        .iter_mut()
                        .zip(line)
                        .for_each(|(value, x)| *value = *value - *x * *key);
                }
                value.iter_mut().for_each(|value| *value = *value * rate);
            }
            for (line, key) in state.chunks_exact_mut(value_width).zip(&key) {
                line.iter_mut().zip(&value).for_each(|(x, value)| *x += *key * *value);
            }
            for q_head in head * group..(head + 1) * group {
                let place = (b * queries.heads + q_head) * length + at;
                let out = &mut sums[place * value_width..(place + 1) * value_width];
                let query = &queries.all[place * width..(place + 1) * width];
                for (line, query) in state.chunks_exact(value_width).zip(query) {
                    out.iter_mut()
                        .zip(line)
                        .for_each(|(out, x)| *out += scale * *query * *x);
                }
            }
        }
    }
    let sums = exchanged(&sums, [batch, queries.heads, length, value_width]);
    let shape = [batch, length, queries.heads * value_width];
    Ok(vec![
        rounded(&shape, sums, float_of(tensor)?)?.into(),
        rounded(&state_shape, states, state_element)?.into(),
    ])
}
