//! Attention of ONNX, from version 23 on.

use std::borrow::Cow;
use std::sync::Arc;

use lessen_base::{Error, Result};

use super::heads::{Extents, Heads, Row, Stage, appended, exchanged};
use super::sizes::broadcast;
use crate::operators::real::{Real, float_of, in_reals, rounded};
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue};

pub(crate) const OPERATORS: HostOperators = &[("", "Attention", attention)];

fn attention(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let queries = call.tensor(0)?;
    in_reals!(queries, attention_of(call, queries))
}

/// An array by batch, head, position and feature.
pub(super) struct Split<'a, R: Real> {
    pub all: Cow<'a, [R]>,
    pub batch: usize,
    pub heads: usize,
    pub length: usize,
    pub width: usize,
}

impl<'a, R: Real> Split<'a, R> {
    /// An input of four axes, or one of three, whose last one is split into heads.
    ///
    /// # Errors
    /// Other numbers of axes, a number of heads that does not divide.
    pub(super) fn of(tensor: &'a HostTensor, heads: i64) -> Result<Split<'a, R>> {
        let all = R::read(tensor)?;
        if tensor.shape().last() == Some(&0) {
            return Err(Error::user("its heads have no features"));
        }
        match *tensor.shape() {
            [batch, heads, length, width] => Ok(Split {
                all,
                batch,
                heads,
                length,
                width,
            }),
            [batch, length, features] => {
                let heads = usize::try_from(heads)
                    .ok()
                    .filter(|heads| *heads > 0 && features % heads == 0);
                let Some(heads) = heads else {
                    return Err(Error::user(format!(
                        "{features} features are not split into its number of heads"
                    )));
                };
                let width = features / heads;
                let all = exchanged(&all, [batch, length, heads, width]).into();
                Ok(Split {
                    all,
                    batch,
                    heads,
                    length,
                    width,
                })
            }
            _ => Err(Error::user(format!("an input of {} axes has no heads", tensor.rank()))),
        }
    }

    /// The extents.
    pub(super) fn shape(&self) -> [usize; 4] {
        [self.batch, self.heads, self.length, self.width]
    }

    /// The positions of an earlier array followed by these.
    ///
    /// # Errors
    /// Other extents.
    pub(super) fn after(self, past: Option<&Arc<HostTensor>>) -> Result<Split<'a, R>> {
        let Some(past) = past else {
            return Ok(self);
        };
        match *past.shape() {
            [batch, heads, length, width] if [batch, heads, width] == [self.batch, self.heads, self.width] => {
                let stack = [batch * heads, length, self.length, width];
                Ok(Split {
                    all: appended(&R::read(past)?, &self.all, stack).into(),
                    length: length + self.length,
                    ..self
                })
            }
            _ => {
                let (past, new) = (past.shape(), self.shape());
                Err(Error::user(format!("a cache of extents {past:?} does not fit {new:?}")))
            }
        }
    }

    /// The array in an element type.
    pub(super) fn stored(&self, element: Element) -> Result<HostTensor> {
        rounded(&self.shape(), self.all.to_vec(), element)
    }
}

/// What is added to scores.
pub(super) struct Mask<'a, R: Real> {
    all: Cow<'a, [R]>,
    /// Steps of batch, head and query; nought where it broadcasts.
    strides: [usize; 3],
    /// Keys that it says something of; later ones are masked.
    keys: usize,
}

impl<'a, R: Real> Mask<'a, R> {
    /// A mask of truth values, of which false ones mask, or a bias, which broadcasts to batch, head, query and key.
    ///
    /// # Errors
    /// Extents that do not fit.
    pub(super) fn of(tensor: &'a HostTensor, extents: Extents) -> Result<Mask<'a, R>> {
        let shape = tensor.shape();
        let given = &extents;
        let unfit = || Error::user(format!("a mask of extents {shape:?} does not fit {given:?}"));
        let [around @ .., keys] = shape else {
            return Err(unfit());
        };
        let target = [extents.batch, extents.heads, extents.queries];
        if around.len() > 3 || *keys > extents.keys || broadcast(around, &target)? != target {
            return Err(unfit());
        }
        let all: Cow<'a, [R]> = match tensor.data() {
            Data::Bool(v) => v.iter().map(|x| if *x { R::ZERO } else { R::LEAST }).collect(),
            _ => R::read(tensor)?,
        };
        let (mut strides, mut stride) = ([0; 3], *keys);
        for (i, extent) in around.iter().rev().enumerate() {
            if *extent != 1 {
                strides[2 - i] = stride;
            }
            stride = stride.saturating_mul(*extent);
        }
        Ok(Mask {
            all,
            strides,
            keys: *keys,
        })
    }

    /// Adds the mask to a row of scores.
    pub(super) fn add(&self, place: Row, row: &mut [R]) {
        let first: usize = place.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum();
        let (known, later) = row.split_at_mut(self.keys);
        for (x, mask) in known.iter_mut().zip(&self.all[first..first + self.keys]) {
            *x = if *mask == R::LEAST { R::LEAST } else { *x + *mask };
        }
        later.fill(R::LEAST);
    }
}

fn attention_of<R: Real>(call: &HostCall<'_>, tensor: &HostTensor) -> Result<Vec<HostValue>> {
    let element = float_of(tensor)?;
    let kv_heads = call.int("kv_num_heads", 0);
    if !matches!(call.int("softmax_precision", 1), 1 | 10 | 11 | 16) {
        return call.refused("its softmax_precision is no float");
    }
    let queries = Split::<R>::of(tensor, call.int("q_num_heads", 0))?;
    let (past_key, past_value) = (call.optional(4)?, call.optional(5)?);
    if past_key.is_some() != past_value.is_some() {
        return call.refused("it has past keys or past values, but not both");
    }
    let keys = Split::<R>::of(call.tensor(1)?, kv_heads)?.after(past_key)?;
    let values = Split::<R>::of(call.tensor(2)?, kv_heads)?.after(past_value)?;
    let extents = extents_of(&queries, &keys, &values)?;
    let lengths = match call.optional(6)? {
        None => None,
        Some(_) if past_key.is_some() => return call.refused("it has both past keys and nonpad_kv_seqlen"),
        Some(lengths) if lengths.shape() == [extents.batch] => Some(call.integers(6)?),
        Some(_) => return call.refused("its nonpad_kv_seqlen has not one length for each of the batch"),
    };
    let mask = call.optional(3)?.map(|mask| Mask::<R>::of(mask, extents)).transpose()?;
    let is_causal = call.int("is_causal", 0) != 0;
    let window = [call.int("left_window_size", -1), call.int("right_window_size", -1)];
    let past = past_key.map_or(0, |past| past.shape()[2]);
    let bias = |place: Row, row: &mut [R]| {
        if let Some(mask) = &mask {
            mask.add(place, row);
        }
        let valid = lengths.as_ref().map(|lengths| lengths[place[0]]);
        let offset = valid.map_or(past as i64, |valid| valid.saturating_sub(extents.queries as i64));
        let position = offset.saturating_add(place[2] as i64);
        let right = if is_causal { Some(0) } else { None };
        let right = right.or((window[1] >= 0).then_some(window[1]));
        keep(
            row,
            [
                (window[0] >= 0).then(|| position.saturating_sub(window[0])),
                right.map(|right| position.saturating_add(right).saturating_add(1)),
            ],
        );
        keep(row, [None, valid]);
        Ok(())
    };
    let softcap = R::of_f64(call.float("softcap", 0.0));
    let scale = call.float("scale", 1.0 / (queries.width as f64).sqrt());
    let heads = Heads {
        queries: &queries.all,
        keys: &keys.all,
        values: &values.all,
        of: extents,
        scale: R::of_f64(scale),
        softcap,
        sinks: None,
    };
    let stage = match call.int("qk_matmul_output_mode", 0) {
        0 => Stage::Scores,
        1 => Stage::Capped,
        2 => Stage::Biased,
        3 => Stage::Shares,
        other => return call.refused(format!("its qk_matmul_output_mode {other} is not known")),
    };
    let wants_scores = call.wants(3);
    let mut scores = Vec::new();
    let sums = heads.attend(bias, |at, row| {
        if wants_scores && at == stage {
            scores.extend_from_slice(row);
        }
    })?;
    let Extents {
        batch,
        heads: count,
        queries: length,
        keys: total,
        value_width,
        ..
    } = extents;
    let y = if tensor.rank() == 3 {
        let sums = exchanged(&sums, [batch, count, length, value_width]);
        rounded(&[batch, length, count * value_width], sums, element)?
    } else {
        rounded(&[batch, count, length, value_width], sums, element)?
    };
    let value_element = float_of(call.tensor(2)?)?;
    let mut outputs = vec![
        y.into(),
        keys.stored(element)?.into(),
        values.stored(value_element)?.into(),
    ];
    if wants_scores {
        outputs.push(rounded(&[batch, count, length, total], scores, element)?.into());
    }
    Ok(outputs)
}

/// The extents of attention to these.
///
/// # Errors
/// Extents that do not fit.
pub(super) fn extents_of<R: Real>(
    queries: &Split<'_, R>,
    keys: &Split<'_, R>,
    values: &Split<'_, R>,
) -> Result<Extents> {
    let fits = queries.batch == keys.batch
        && keys.batch == values.batch
        && keys.heads == values.heads
        && keys.length == values.length
        && queries.width == keys.width;
    if !fits {
        return Err(Error::user("the extents of its queries, keys and values do not fit"));
    }
    Ok(Extents {
        batch: queries.batch,
        heads: queries.heads,
        kv_heads: keys.heads,
        queries: queries.length,
        keys: keys.length,
        width: queries.width,
        value_width: values.width,
    })
}

/// Masks the scores before the first and from the second bound on.
pub(super) fn keep<R: Real>(row: &mut [R], [first, end]: [Option<i64>; 2]) {
    let length = row.len();
    let at = |bound: i64| usize::try_from(bound.max(0)).map_or(length, |bound| bound.min(length));
    if let Some(first) = first {
        row[..at(first)].fill(R::LEAST);
    }
    if let Some(end) = end {
        row[at(end)..].fill(R::LEAST);
    }
}
