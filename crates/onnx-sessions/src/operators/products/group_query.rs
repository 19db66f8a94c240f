//! Attention of com.microsoft in which several heads of queries share keys and values, with a cache.

use std::borrow::Cow;

use lessen_base::Result;

use super::attention::{Mask, Split, keep};
use super::contributed_attention::{merged, split};
use super::heads::{Extents, Heads, Row};
use super::rotary::Turns;
use super::sizes::room;
use crate::operators::real::{Real, float_of, in_reals};
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue};

pub(crate) const OPERATORS: HostOperators = &[("com.microsoft", "GroupQueryAttention", group_query_attention)];

fn group_query_attention(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    in_reals!(tensor, group_query_attention_of(call, tensor))
}

/// Refuses what is not done here.
fn check(call: &HostCall<'_>) -> Result<()> {
    for (input, name) in [
        (12, "k_scale"),
        (13, "v_scale"),
        (14, "q_norm_weight"),
        (15, "k_norm_weight"),
        (16, "query_seqlens"),
    ] {
        if call.has(input) {
            return call.refused(format!("its input {name} is not known"));
        }
    }
    if call.int("causal", 1) != 1 || call.int("sliding_window_cache", 0) != 0 || call.int("kv_cache_bit_width", 0) != 0
    {
        return call.refused("its attributes causal, sliding_window_cache and kv_cache_bit_width are not known");
    }
    for name in ["k_quant_type", "v_quant_type"] {
        if call.text(name).is_some_and(|kind| !kind.is_empty() && kind != "NONE") {
            return call.refused(format!("its attribute {name} is not known"));
        }
    }
    if call.wants(3) || call.int("qk_output", 0) != 0 {
        return call.refused("its output of scores is not known");
    }
    Ok(())
}

/// Queries, keys and values by batch, head and position.
type Parts<R> = [Split<'static, R>; 3];

/// The parts of the inputs, which may be packed in one.
fn parts<R: Real>(call: &HostCall<'_>, tensor: &HostTensor) -> Result<Parts<R>> {
    let (heads, kv_heads) = (call.int("num_heads", 0), call.int("kv_num_heads", 0));
    let [batch, length, features] = *tensor.shape() else {
        return call.refused(format!("its queries have {} axes in place of 3", tensor.rank()));
    };
    if call.has(1) != call.has(2) {
        return call.refused("it has keys or values, but not both");
    }
    if call.has(1) {
        let of = |input: usize| {
            let tensor = call.tensor(input)?;
            match *tensor.shape() {
                [b, l, features] if [b, l] == [batch, length] => {
                    split(R::read(tensor)?.into_owned(), [b, l, features], kv_heads)
                }
                _ => call.refused("the extents of its queries, keys and values do not fit"),
            }
        };
        return Ok([
            split(R::read(tensor)?.into_owned(), [batch, length, features], heads)?,
            of(1)?,
            of(2)?,
        ]);
    }
    let all = kv_heads
        .checked_mul(2)
        .and_then(|kv| kv.checked_add(heads))
        .filter(|_| kv_heads > 0 && heads > 0);
    let Some(packed) = all
        .and_then(|all| usize::try_from(all).ok())
        .filter(|all| features > 0 && features % all == 0)
    else {
        return call.refused(format!("{features} features are not split into its heads"));
    };
    let width = features / packed;
    let elements = R::read(tensor)?;
    let part = |first: i64, count: i64| {
        let (first, count) = (first as usize * width, count as usize * width);
        let mut part = Vec::new();
        for line in elements.chunks_exact(features.max(1)) {
            part.extend_from_slice(&line[first..first + count]);
        }
        split(part, [batch, length, count], count as i64 / (width as i64).max(1))
    };
    Ok([
        part(0, heads)?,
        part(heads, kv_heads)?,
        part(heads + kv_heads, kv_heads)?,
    ])
}

/// Turns queries or keys at their positions.
fn turn<R: Real>(call: &HostCall<'_>, part: &mut Split<'static, R>, positions: &[i64]) -> Result<()> {
    let (cosines, sines) = (call.tensor(7)?, call.tensor(8)?);
    let [_, pairs] = *cosines.shape() else {
        return call.refused("its angles have not two axes");
    };
    if cosines.shape() != sines.shape() || pairs == 0 || pairs.saturating_mul(2) > part.width {
        return call.refused("its angles do not fit its heads");
    }
    let turns = Turns {
        cosines: &R::read(cosines)?,
        sines: &R::read(sines)?,
        pairs,
        is_interleaved: call.int("rotary_interleaved", 0) != 0,
    };
    let (length, width) = (part.length, part.width);
    let mut all = std::mem::take(&mut part.all).into_owned();
    for (stack, heads) in all.chunks_exact_mut((length * width).max(1)).enumerate() {
        let first = stack / part.heads * length;
        for (head, position) in heads.chunks_exact_mut(width).zip(&positions[first..first + length]) {
            turns.turn(head, *position)?;
        }
    }
    part.all = all.into();
    Ok(())
}

/// Earlier and new positions of one cache: of each batch as many earlier ones as there are.
fn cached<R: Real>(
    call: &HostCall<'_>,
    new: &Split<'static, R>,
    past: usize,
    earlier: &[usize],
    present: usize,
) -> Result<Split<'static, R>> {
    let [batch, heads, length, width] = new.shape();
    let given = call.optional(past)?;
    let (all, capacity): (Cow<'_, [R]>, usize) = match given.map(|past| past.shape()) {
        None => (Cow::Borrowed(&[]), 0),
        Some(&[b, h, capacity, w]) if [b, h, w] == [batch, heads, width] => (R::read(call.tensor(past)?)?, capacity),
        Some(shape) => return call.refused(format!("a cache of extents {shape:?} does not fit {:?}", new.shape())),
    };
    let mut result = vec![R::ZERO; room(&[batch, heads, present, width])?];
    let lines = result.chunks_exact_mut((present * width).max(1)).enumerate();
    for (stack, line) in lines {
        let known = earlier[stack / heads];
        if known > capacity || known + length > present {
            return call.refused(format!(
                "its cache of {capacity} positions has not {known} earlier ones"
            ));
        }
        let (before, after) = line.split_at_mut(known * width);
        before.copy_from_slice(&all[stack * capacity * width..][..known * width]);
        after[..length * width].copy_from_slice(&new.all[stack * length * width..][..length * width]);
    }
    Ok(Split {
        all: result.into(),
        batch,
        heads,
        length: present,
        width,
    })
}

fn group_query_attention_of<R: Real>(call: &HostCall<'_>, tensor: &HostTensor) -> Result<Vec<HostValue>> {
    check(call)?;
    let [mut queries, mut keys, values] = parts::<R>(call, tensor)?;
    let (batch, length) = (queries.batch, queries.length);
    let total = match call.integers(6)?.first().map(|total| usize::try_from(*total)) {
        Some(Ok(total)) => total,
        _ => return call.refused("its total length is no length"),
    };
    let lengths = call.integers(5)?;
    if lengths.len() != batch {
        return call.refused("its lengths are not one for each of the batch");
    }
    let is_first = total == length;
    let mut earlier = Vec::new();
    for last in lengths {
        let end = usize::try_from(last)
            .ok()
            .and_then(|last| last.checked_add(1))
            .filter(|end| *end <= total);
        let before = end.and_then(|end| if is_first { Some(0) } else { end.checked_sub(length) });
        let Some(before) = before else {
            return call.refused(format!(
                "the length {last} + 1 does not fit {length} new positions of {total}"
            ));
        };
        earlier.push(before);
    }
    if call.int("do_rotary", 0) != 0 {
        let positions: Vec<i64> = match call.optional(9)? {
            Some(given) if given.shape() == [batch, length] => call.integers(9)?,
            Some(_) => return call.refused("its positions do not fit its queries"),
            None => earlier
                .iter()
                .flat_map(|first| (*first as i64)..(*first + length) as i64)
                .collect(),
        };
        turn(call, &mut queries, &positions)?;
        turn(call, &mut keys, &positions)?;
    }
    let capacity = match call.optional(3)?.map(|past| past.shape()) {
        Some([_, _, capacity, _]) => *capacity,
        _ => 0,
    };
    let present = capacity.max(total);
    let keys = cached(call, &keys, 3, &earlier, present)?;
    let values = cached(call, &values, 4, &earlier, present)?;
    let extents = Extents {
        keys: total,
        ..super::attention::extents_of(&queries, &keys, &values)?
    };
    let bias = call
        .optional(10)?
        .map(|bias| Mask::<R>::of(bias, extents))
        .transpose()?;
    let window = call.int("local_window_size", -1);
    let rule = |place: Row, row: &mut [R]| {
        let [b, _, query] = place;
        if let Some(bias) = &bias {
            bias.add(place, row);
        }
        let end = (earlier[b] + query + 1) as i64;
        keep(row, [(window >= 0).then(|| end.saturating_sub(window)), Some(end)]);
        Ok(())
    };
    let sinks = match call.optional(11)? {
        Some(sinks) if sinks.len() == queries.heads => Some(R::read(sinks)?.into_owned()),
        Some(_) => return call.refused("its sinks are not one for each head"),
        None if call.int("smooth_softmax", -1) > 0 => Some(vec![R::ZERO; queries.heads]),
        None => None,
    };
    let scale = match call.float("scale", 0.0) {
        0.0 => 1.0 / (queries.width as f64).sqrt(),
        scale => scale,
    };
    let heads = Heads {
        queries: &queries.all,
        keys: &first(&keys, total),
        values: &first(&values, total),
        of: extents,
        scale: R::of_f64(scale),
        softcap: R::of_f64(call.float("softcap", 0.0)),
        sinks,
    };
    let sums = heads.attend(rule, |_, _| {})?;
    let element = float_of(tensor)?;
    Ok(vec![
        merged(&sums, extents, element)?.into(),
        keys.stored(element)?.into(),
        values.stored(element)?.into(),
    ])
}

/// The first positions of a cache.
fn first<'a, R: Real>(cache: &'a Split<'static, R>, length: usize) -> Cow<'a, [R]> {
    if length == cache.length || cache.all.is_empty() {
        return Cow::Borrowed(&cache.all);
    }
    let stacks = cache.all.chunks_exact(cache.length * cache.width);
    stacks
        .flat_map(|stack| &stack[..length * cache.width])
        .copied()
        .collect()
}
