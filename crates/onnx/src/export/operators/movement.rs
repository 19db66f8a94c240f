//! Operations that move elements.

use lessen_base::Result;
use lessen_graph::ops::{Broadcast, Concat, Pad, Permute, Reshape, Slice, Split};
use lessen_graph::{Named, ValueId};

use super::parameters::{attributes, scalar};
use super::{Operation, always};
use crate::export::emitter::{Emitter, Narrow};
use crate::export::extent::Extent;
use crate::export::writer::{int, ints};

pub(super) const OPERATIONS: &[Operation] = &[
    always(Broadcast::NAME, broadcast),
    always(Concat::NAME, concat),
    always(Pad::NAME, pad),
    always(Permute::NAME, permute),
    always(Reshape::NAME, reshape),
    always(Slice::NAME, slice),
    always(Split::NAME, split),
];

fn broadcast(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let (input, output) = (e.node(node).inputs[0], e.node(node).outputs[0]);
    e.set_narrow(output, Narrow::Value(input));
    Ok(())
}

fn reshape(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let (input, output) = (e.node(node).inputs[0], e.node(node).outputs[0]);
    if let Some(number) = e.fill(input) {
        e.values[output.index()].fill = Some(number);
        return Ok(());
    }
    let (from, to) = (e.shape(input), e.shape(output));
    if e.is_one_pixel(input) && e.is_channels_first(input) {
        let name = e.channels_first(input)?;
        let name = e.reshaped_from(&name, None, to);
        e.set(output, name);
        return Ok(());
    }
    // Pixels of images become rows, or the other way round.
    if e.is_channels_first(input)
        && let ([n, .., c], [own_n, .., own_c]) = (from, to)
        && n == own_n
        && c == own_c
        && from.len().min(to.len()) == 3
        && from.len().max(to.len()) == 4
    {
        let pixels = &to[1..to.len() - 1];
        let shape: Vec<Extent> = [n, c].into_iter().chain(pixels).cloned().collect();
        let name = e.channels_first(input)?;
        let name = e.reshaped_from(&name, None, &shape);
        e.set_channels_first(output, name);
        return Ok(());
    }
    // Axes of extent 1 are added to what is repeated, not to the repetitions.
    if let Some(Narrow::Value(inner)) = e.values[input.index()].narrow
        && e.shape(inner).len() == from.len()
        && let Some(added) = added_axes(from, to)
    {
        let narrow = e.plain(inner)?;
        let axes = e.writer.ints(&added);
        let name = e.writer.one("Unsqueeze", &[&narrow, &axes], vec![]);
        let mut shape = e.shape(inner).to_vec();
        added.iter().for_each(|axis| shape.insert(*axis as usize, e.fixed(1)));
        e.set_narrow(output, Narrow::Written(name, shape));
        return Ok(());
    }
    let name = e.plain(input)?;
    let name = match (added_axes(from, to), added_axes(to, from)) {
        (Some(axes), _) => {
            let axes = e.writer.ints(&axes);
            e.writer.one("Unsqueeze", &[&name, &axes], vec![])
        }
        (None, Some(axes)) => {
            let axes = e.writer.ints(&axes);
            e.writer.one("Squeeze", &[&name, &axes], vec![])
        }
        (None, None) => e.reshaped_from(&name, Some(from), to),
    };
    e.set(output, name);
    Ok(())
}

/// The axes of extent 1 that `to` has beside the axes of `from`, where that is the only difference.
fn added_axes(from: &[Extent], to: &[Extent]) -> Option<Vec<i64>> {
    let mut rest = from.iter().peekable();
    let mut added = Vec::new();
    for (axis, extent) in to.iter().enumerate() {
        if rest.peek() == Some(&extent) {
            rest.next();
        } else if extent.is_one() {
            added.push(axis as i64);
        } else {
            return None;
        }
    }
    (rest.next().is_none() && !added.is_empty()).then_some(added)
}

fn permute(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let axes: Vec<i64> = attributes::<Permute>(e, node)?
        .axes
        .iter()
        .map(|axis| *axis as i64)
        .collect();
    let (input, output) = (e.node(node).inputs[0], e.node(node).outputs[0]);
    // Images whose channels move to the front have that form.
    if axes == [0, 3, 1, 2] {
        let name = e.channels_first(input)?;
        e.set(output, name);
        return Ok(());
    }
    let name = e.plain(input)?;
    let name = e.writer.one("Transpose", &[&name], vec![ints("perm", &axes)]);
    e.set(output, name);
    Ok(())
}

/// The name of a value, and its axis: with channels first where it is written so.
fn form(e: &mut Emitter<'_>, value: ValueId, axis: usize, channels_first: bool) -> Result<(String, i64)> {
    Ok(if channels_first {
        (
            e.channels_first(value)?,
            Emitter::axis_of_channels_first(axis, e.shape(value).len()),
        )
    } else {
        (e.plain(value)?, axis as i64)
    })
}

/// Sets a result in the form that it is in.
fn set(e: &mut Emitter<'_>, value: ValueId, name: String, channels_first: bool) {
    if channels_first {
        e.set_channels_first(value, name);
    } else {
        e.set(value, name);
    }
}

fn concat(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let axis = attributes::<Concat>(e, node)?.axis;
    let (inputs, output) = (&e.node(node).inputs, e.node(node).outputs[0]);
    let images = inputs.iter().all(|value| e.is_channels_first(*value));
    let mut names = Vec::new();
    for value in inputs {
        names.push(form(e, *value, axis, images)?.0);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let axis = if images {
        Emitter::axis_of_channels_first(axis, e.shape(output).len())
    } else {
        axis as i64
    };
    let name = e.writer.one("Concat", &names, vec![int("axis", axis)]);
    set(e, output, name, images);
    Ok(())
}

fn slice(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let axis = attributes::<Slice>(e, node)?.axis;
    let (input, output) = (e.node(node).inputs[0], e.node(node).outputs[0]);
    let (start, len) = (e.family.sizes(node, "start")?, e.family.sizes(node, "len")?);
    let end = start[0].plus(&len[0]);
    let images = e.is_channels_first(input);
    let (name, axis) = form(e, input, axis, images)?;
    let (start, end, axes) = (e.size(&start[0]), e.size(&end), e.writer.ints(&[axis]));
    let name = e.writer.one("Slice", &[&name, &start, &end, &axes], vec![]);
    set(e, output, name, images);
    Ok(())
}

fn split(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let axis = attributes::<Split>(e, node)?.axis;
    let (input, outputs) = (e.node(node).inputs[0], &e.node(node).outputs);
    let sizes = e.family.sizes(node, "sizes")?;
    let images = e.is_channels_first(input);
    let (name, axis) = form(e, input, axis, images)?;
    let sizes = e.sizes(&sizes);
    let names = e
        .writer
        .node("Split", &[&name, &sizes], vec![int("axis", axis)], outputs.len());
    for (value, name) in outputs.iter().zip(names) {
        set(e, *value, name, images);
    }
    Ok(())
}

fn pad(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let Pad { axis, value, .. } = *attributes::<Pad>(e, node)?;
    let (input, output) = (e.node(node).inputs[0], e.node(node).outputs[0]);
    let (before, after) = (e.family.sizes(node, "before")?, e.family.sizes(node, "after")?);
    let (rank, images) = (e.shape(input).len(), e.is_channels_first(input));
    let (name, axis) = form(e, input, axis, images)?;
    let mut pads = vec![e.fixed(0); 2 * rank];
    pads[axis as usize] = before[0].clone();
    pads[rank + axis as usize] = after[0].clone();
    let (pads, value) = (e.sizes(&pads), scalar(e, e.dtype(input), value));
    let name = e.writer.one("Pad", &[&name, &pads, &value], vec![]);
    set(e, output, name, images);
    Ok(())
}
