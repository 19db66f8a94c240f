//! Norms of com.microsoft after a sum: of a stream and a branch, or of embeddings.

use lessen_base::{Error, Result};

use super::norms::{modulate, normalize};
use super::sizes::{room, spread};
use crate::operators::real::{Real, float_of, in_reals, rounded};
use lessen_onnx::Element;
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue};

pub(crate) const OPERATORS: HostOperators = &[
    ("com.microsoft", "EmbedLayerNormalization", embed_norm),
    ("com.microsoft", "SkipLayerNormalization", |call| skip_norm(call, true)),
    ("com.microsoft", "SkipSimplifiedLayerNormalization", |call| {
        skip_norm(call, false)
    }),
];

fn skip_norm(call: &HostCall<'_>, is_centered: bool) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    in_reals!(tensor, skip_norm_of(call, tensor, is_centered))
}

fn skip_norm_of<R: Real>(call: &HostCall<'_>, tensor: &HostTensor, is_centered: bool) -> Result<Vec<HostValue>> {
    let (shape, element) = (tensor.shape(), float_of(tensor)?);
    let Some((width, kept)) = shape.split_last().filter(|(width, _)| **width > 0) else {
        return call.refused("it has no elements to normalize");
    };
    let skip = call.tensor(1)?;
    let mut sum = R::read(tensor)?.into_owned();
    let skips = spread(&R::read(skip)?, skip.shape(), shape)?;
    sum.iter_mut().zip(skips).for_each(|(x, skip)| *x += skip);
    let (shift, bias) = if is_centered { (call.optional(3)?, 4) } else { (None, 3) };
    if let Some(bias) = call.optional(bias)? {
        modulate(&mut sum, shape, *width, bias, |x, bias| x + bias)?;
    }
    let mut x = sum.clone();
    let epsilon = R::of_f64(call.float("epsilon", 1e-12));
    let statistics = x
        .chunks_exact_mut(*width)
        .map(|line| normalize(line, is_centered, epsilon));
    let (means, inverses): (Vec<R>, Vec<R>) = statistics.unzip();
    modulate(&mut x, shape, *width, call.tensor(2)?, |x, scale| x * scale)?;
    if let Some(shift) = shift {
        modulate(&mut x, shape, *width, shift, |x, shift| x + shift)?;
    }
    let mut lines = kept.to_vec();
    lines.push(1);
    Ok(vec![
        rounded(shape, x, element)?.into(),
        rounded(&lines, means, Element::F32)?.into(),
        rounded(&lines, inverses, Element::F32)?.into(),
        rounded(shape, sum, element)?.into(),
    ])
}

fn embed_norm(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let words = call.tensor(2)?;
    in_reals!(words, embed_norm_of(call, words))
}

fn embed_norm_of<R: Real>(call: &HostCall<'_>, words: &HostTensor) -> Result<Vec<HostValue>> {
    let ids = call.tensor(0)?;
    let [batch, length] = *ids.shape() else {
        return call.refused("its ids have not two axes");
    };
    let [_, width] = *words.shape() else {
        return call.refused("its table of words has not two axes");
    };
    if width == 0 {
        return call.refused("it has no elements to normalize");
    }
    let shape = [batch, length, width];
    room(&[batch, length.max(1)])?;
    let mut sum = vec![R::ZERO; room(&shape)?];
    add_rows(&mut sum, words, &call.integers(0)?)?;
    let positions: Vec<i64> = match call.optional(8)? {
        None => (0..batch).flat_map(|_| 0..length as i64).collect(),
        Some(positions) => spread(&call.integers(8)?, positions.shape(), &[batch, length])?,
    };
    add_rows(&mut sum, call.tensor(3)?, &positions)?;
    match (call.optional(1)?, call.optional(4)?) {
        (Some(segments), Some(table)) if segments.shape() == ids.shape() => {
            add_rows(&mut sum, table, &call.integers(1)?)?;
        }
        (None, None) => {}
        _ => return call.refused("its segments do not fit"),
    }
    let mut x = sum.clone();
    let epsilon = R::of_f64(call.float("epsilon", 1e-12));
    for line in x.chunks_exact_mut(width) {
        normalize(line, true, epsilon);
    }
    modulate(&mut x, &shape, width, call.tensor(5)?, |x, scale| x * scale)?;
    modulate(&mut x, &shape, width, call.tensor(6)?, |x, shift| x + shift)?;
    let lengths: Vec<i32> = match call.optional(7)? {
        None => vec![0; batch],
        Some(mask) if mask.shape() == ids.shape() && length > 0 => {
            let mask = call.integers(7)?;
            let lines = mask.chunks_exact(length);
            lines
                .map(|line| line.iter().filter(|x| **x == 1).count() as i32)
                .collect()
        }
        Some(_) => return call.refused("its mask has not the extents of its ids"),
    };
    let element = float_of(words)?;
    Ok(vec![
        rounded(&shape, x, element)?.into(),
        HostTensor::vector(lengths).into(),
        rounded(&shape, sum, element)?.into(),
    ])
}

/// Adds rows of a table to the lines of an array.
fn add_rows<R: Real>(sum: &mut [R], table: &HostTensor, ids: &[i64]) -> Result<()> {
    let unfit = || Error::user("one of its tables has other extents than the others");
    let [rows, width] = *table.shape() else {
        return Err(unfit());
    };
    if width == 0 || ids.len().checked_mul(width) != Some(sum.len()) {
        return Err(unfit());
    }
    let elements = R::read(table)?;
    for (line, id) in sum.chunks_exact_mut(width).zip(ids) {
        let row = usize::try_from(*id).ok().filter(|row| *row < rows);
        let row = row.ok_or_else(|| Error::user(format!("a table of {rows} rows has no row {id}")))?;
        line.iter_mut()
            .zip(&elements[row * width..(row + 1) * width])
            .for_each(|(x, row)| *x += *row);
    }
    Ok(())
}
