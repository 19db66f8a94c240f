//! Attention of com.microsoft: with its own projection, and of several heads.

use std::sync::Arc;

use lessen_base::{Error, Result};

use super::attention::{Mask, Split, extents_of, keep};
use super::heads::{Extents, Heads, Row, exchanged};
use super::kernel::product;
use super::norms::modulate;
use crate::operators::real::{Real, float_of, in_reals, rounded};
use lessen_onnx::Element;
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue};

pub(crate) const OPERATORS: HostOperators = &[
    ("com.microsoft", "Attention", projected_attention),
    ("com.microsoft", "MultiHeadAttention", multi_head_attention),
];

/// Which keys are padding, in one of several forms.
struct Padding {
    /// For each query of a batch and each key whether it is there, or one line for all queries of a batch.
    is_there: Vec<bool>,
    /// Lines of a batch.
    lines: usize,
}

impl Padding {
    /// The padding that an input says: lengths, ends and starts, or a mask.
    fn of(call: &HostCall<'_>, input: usize, extents: Extents) -> Result<Option<Padding>> {
        let Some(tensor) = call.optional(input)? else {
            return Ok(None);
        };
        let (given, total) = (call.integers(input)?, extents.keys);
        let batch = extents.batch;
        let line = |start: i64, end: i64| (0..total as i64).map(move |at| at >= start && at < end);
        let (is_there, lines): (Vec<bool>, usize) = match *tensor.shape() {
            [count] if count == batch => (given.iter().flat_map(|end| line(0, *end)).collect(), 1),
            [count] if count == 2 * batch => {
                let (ends, starts) = given.split_at(batch);
                let pairs = ends.iter().zip(starts);
                (pairs.flat_map(|(end, start)| line(*start, *end)).collect(), 1)
            }
            [rows, keys] if rows == batch && keys == total => (given.iter().map(|x| *x > 0).collect(), 1),
            [rows, queries, keys] if rows == batch && queries == extents.queries && keys == total => {
                (given.iter().map(|x| *x > 0).collect(), queries)
            }
            _ => return call.refused(format!("a mask of extents {:?} is not known", tensor.shape())),
        };
        Ok(Some(Padding { is_there, lines }))
    }

    /// Adds a number to the scores of padding.
    fn add<R: Real>(&self, place: Row, row: &mut [R], filler: R) {
        let line = if self.lines == 1 {
            place[0]
        } else {
            place[0] * self.lines + place[2]
        };
        let line = &self.is_there[line * row.len()..(line + 1) * row.len()];
        for (x, is_there) in row.iter_mut().zip(line) {
            if !is_there {
                *x += filler;
            }
        }
    }
}

/// What is given of attention beside queries, keys and values.
struct Rules<'a> {
    /// The input of padding.
    padding: usize,
    /// The input of the bias of scores.
    bias: usize,
    /// Positions before the first query.
    past: usize,
    call: &'a HostCall<'a>,
}

impl Rules<'_> {
    fn attend<R: Real>(
        &self,
        queries: &Split<'_, R>,
        keys: &Split<'_, R>,
        values: &Split<'_, R>,
    ) -> Result<(Vec<R>, Extents)> {
        let (call, extents) = (self.call, extents_of(queries, keys, values)?);
        let padding = Padding::of(call, self.padding, extents)?;
        let bias = call
            .optional(self.bias)?
            .map(|bias| Mask::<R>::of(bias, extents))
            .transpose()?;
        let filler = R::of_f64(call.float("mask_filter_value", -10000.0));
        let is_causal = call.int("unidirectional", 0) != 0;
        let scale = match call.float("scale", 0.0) {
            0.0 => 1.0 / (queries.width as f64).sqrt(),
            scale => scale,
        };
        let heads = Heads {
            queries: &queries.all,
            keys: &keys.all,
            values: &values.all,
            of: extents,
            scale: R::of_f64(scale),
            softcap: R::ZERO,
            sinks: None,
        };
        let sums = heads.attend(
            |place, row| {
                if let Some(bias) = &bias {
                    bias.add(place, row);
                }
                if let Some(padding) = &padding {
                    padding.add(place, row, filler);
                }
                if is_causal {
                    keep(row, [None, Some((self.past + place[2] + 1) as i64)]);
                }
                Ok(())
            },
            |_, _| {},
        )?;
        Ok((sums, extents))
    }
}

/// Sums of values as an array by batch, position and feature.
pub(super) fn merged<R: Real>(sums: &[R], of: Extents, element: Element) -> Result<HostTensor> {
    let Extents {
        batch,
        heads,
        queries,
        value_width,
        ..
    } = of;
    let all = exchanged(sums, [batch, heads, queries, value_width]);
    rounded(&[batch, queries, heads * value_width], all, element)
}

fn projected_attention(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    in_reals!(tensor, projected_attention_of(call, tensor))
}

fn projected_attention_of<R: Real>(call: &HostCall<'_>, tensor: &HostTensor) -> Result<Vec<HostValue>> {
    if call.int("do_rotary", 0) != 0 || call.int("past_present_share_buffer", 0) != 0 || call.has(6) {
        return call.refused("its attributes do_rotary and past_present_share_buffer are not known");
    }
    let weights = call.tensor(1)?;
    let ([batch, length, inputs], [rows, columns]) = (tensor.shape(), weights.shape()) else {
        return call.refused("its input has not three axes, or its weights have not two");
    };
    if inputs != rows {
        return call.refused("the extents of its input and its weights do not fit");
    }
    let widths = match call.ints("qkv_hidden_sizes").filter(|sizes| !sizes.is_empty()) {
        Some(sizes) => sizes.iter().filter_map(|size| usize::try_from(*size).ok()).collect(),
        None => vec![columns / 3; 3],
    };
    let sum = widths.iter().try_fold(0usize, |sum, width| sum.checked_add(*width));
    if widths.len() != 3 || sum != Some(*columns) || widths[0] != widths[1] {
        return call.refused("the widths of its queries, keys and values do not fit its weights");
    }
    let lines = tensor.len() / (*inputs).max(1);
    let mut all = product(&R::read(tensor)?, &R::read(weights)?, [lines, *inputs, *columns])?;
    if let Some(bias) = call.optional(2)? {
        modulate(&mut all, &[*batch, *length, *columns], *columns, bias, |x, bias| {
            x + bias
        })?;
    }
    let projected = Projected {
        all,
        extents: [*batch, *length, *columns],
        widths,
        inputs: [3, 5, 4],
        element: float_of(tensor)?,
    };
    projected.attend(call)
}

/// Queries, keys and values side by side, by batch, position and feature.
pub(super) struct Projected<R> {
    pub all: Vec<R>,
    pub extents: [usize; 3],
    /// Features of queries, of keys and of values.
    pub widths: Vec<usize>,
    /// The inputs of padding, of a bias of scores and of earlier positions.
    pub inputs: [usize; 3],
    /// The type of the result.
    pub element: Element,
}

impl<R: Real> Projected<R> {
    /// The outputs of attention: sums of values, and keys and values after earlier ones.
    ///
    /// # Errors
    /// Extents that do not fit.
    pub(super) fn attend(self, call: &HostCall<'_>) -> Result<Vec<HostValue>> {
        let ([batch, length, columns], [padding, bias, past]) = (self.extents, self.inputs);
        let heads = call.int("num_heads", 0);
        let part = |at: usize| {
            let first: usize = self.widths[..at].iter().sum();
            let mut part = Vec::new();
            for line in self.all.chunks_exact(columns.max(1)) {
                part.extend_from_slice(&line[first..first + self.widths[at]]);
            }
            split(part, [batch, length, self.widths[at]], heads)
        };
        let past = call.optional(past)?;
        let halves = match past {
            None => None,
            Some(past) => match past.shape() {
                [2, shape @ ..] if shape.len() == 4 => {
                    let all = R::read(past)?;
                    let half = |all: &[R]| rounded(shape, all.to_vec(), float_of(past)?).map(Arc::new);
                    let (keys, values) = all.split_at(all.len() / 2);
                    Some((half(keys)?, half(values)?))
                }
                _ => return call.refused("its past has not the extents of keys and values"),
            },
        };
        let past_length = past.map_or(0, |past| past.shape()[3]);
        let (past_keys, past_values) = halves.as_ref().map(|(keys, values)| (keys, values)).unzip();
        let (keys, values) = (part(1)?.after(past_keys)?, part(2)?.after(past_values)?);
        let rules = Rules {
            padding,
            bias,
            past: past_length,
            call,
        };
        let (sums, extents) = rules.attend(&part(0)?, &keys, &values)?;
        let mut outputs = vec![merged(&sums, extents, self.element)?.into()];
        if call.wants(1) {
            if keys.shape() != values.shape() {
                return call.refused("keys and values of different widths are no single present");
            }
            let shape = [&[2], &keys.shape()[..]].concat();
            let all = [&keys.all[..], &values.all[..]].concat();
            outputs.push(rounded(&shape, all, self.element)?.into());
        }
        Ok(outputs)
    }
}

/// Elements by batch, position and feature, split into heads.
///
/// # Errors
/// A number of heads that does not divide.
pub(super) fn split<R: Real>(
    all: Vec<R>,
    [batch, length, features]: [usize; 3],
    heads: i64,
) -> Result<Split<'static, R>> {
    let heads = usize::try_from(heads)
        .ok()
        .filter(|heads| *heads > 0 && features > 0 && features % heads == 0);
    let heads = heads.ok_or_else(|| Error::user(format!("{features} features are not split into its heads")))?;
    let width = features / heads;
    Ok(Split {
        all: exchanged(&all, [batch, length, heads, width]).into(),
        batch,
        heads,
        length,
        width,
    })
}

fn multi_head_attention(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    in_reals!(tensor, multi_head_attention_of(call, tensor))
}

/// An input by batch, position and feature, with its part of the bias.
fn biased<R: Real>(call: &HostCall<'_>, tensor: &HostTensor, first: usize) -> Result<Vec<R>> {
    let mut all = R::read(tensor)?.into_owned();
    if let Some(bias) = call.optional(3)? {
        let width = tensor.shape().last().copied().unwrap_or(0);
        let bias = R::read(bias)?;
        let Some(part) = first.checked_add(width).and_then(|end| bias.get(first..end)) else {
            return call.refused("its bias does not fit its queries, keys and values");
        };
        for line in all.chunks_exact_mut(width.max(1)) {
            line.iter_mut().zip(part).for_each(|(x, bias)| *x += *bias);
        }
    }
    Ok(all)
}

fn multi_head_attention_of<R: Real>(call: &HostCall<'_>, tensor: &HostTensor) -> Result<Vec<HostValue>> {
    if call.has(8) || call.has(9) || call.wants(3) {
        return call.refused("its shared caches and its output of scores are not known");
    }
    let heads = call.int("num_heads", 0);
    let [batch, length, features] = *tensor.shape() else {
        return call.refused("packed queries, keys and values are not known");
    };
    let (key, value) = (call.tensor(1)?, call.tensor(2)?);
    let queries = split(biased::<R>(call, tensor, 0)?, [batch, length, features], heads)?;
    let (past_key, past_value) = (call.optional(6)?, call.optional(7)?);
    if past_key.is_some() != past_value.is_some() {
        return call.refused("it has past keys or past values, but not both");
    }
    let (keys, values) = match (key.shape(), value.shape()) {
        (&[_, kv_length, width], &[value_batch, value_length, value_width]) => {
            let keys = biased::<R>(call, key, features)?;
            let values = biased::<R>(call, value, features.saturating_add(width))?;
            let keys = split(keys, [key.shape()[0], kv_length, width], heads)?;
            let values = split(values, [value_batch, value_length, value_width], heads)?;
            (keys.after(past_key)?, values.after(past_value)?)
        }
        ([_, _, _, _], [_, _, _, _]) if past_key.is_none() && !call.has(3) => {
            (Split::<R>::of(key, heads)?, Split::<R>::of(value, heads)?)
        }
        _ => return call.refused("packed keys and values are not known"),
    };
    let past = past_key.map_or(0, |past| past.shape()[2]);
    let rules = Rules {
        padding: 4,
        bias: 5,
        past,
        call,
    };
    let (sums, extents) = rules.attend(&queries, &keys, &values)?;
    let element = float_of(tensor)?;
    let mut outputs: Vec<HostValue> = vec![merged(&sums, extents, element)?.into()];
    if call.wants(1) || call.wants(2) {
        outputs.push(keys.stored(element)?.into());
        outputs.push(values.stored(element)?.into());
    }
    Ok(outputs)
}
