//! Operations along the last axis: positions of extrema, sorting, cumulative sums, elements by their positions.

use lessen_base::Result;
use lessen_graph::Named;
use lessen_graph::ops::{ArgReduce, Cumulate, CumulateKind, ReduceKind, SumAlong, TakeAlong, TopK};

use super::parameters::{attributes, scalar};
use super::{Operation, always};
use crate::export::emitter::Emitter;
use crate::export::writer::{int, text};
use lessen_graph::DType;

pub(super) const OPERATIONS: &[Operation] = &[
    always(ArgReduce::NAME, arg_reduce),
    Operation {
        name: Cumulate::NAME,
        fits: |op| {
            op.downcast_ref::<Cumulate>()
                .is_some_and(|op| op.kind == CumulateKind::Sum)
        },
        emit: cumulate,
    },
    always(SumAlong::NAME, sum_along),
    always(TakeAlong::NAME, take_along),
    always(TopK::NAME, top_k),
];

fn arg_reduce(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let operator = match attributes::<ArgReduce>(e, node)?.kind {
        ReduceKind::Min => "ArgMin",
        _ => "ArgMax",
    };
    let (input, output) = (e.node(node).inputs[0], e.node(node).outputs[0]);
    let x = e.plain(input)?;
    let name = e.writer.one(operator, &[&x], vec![int("axis", -1), int("keepdims", 0)]);
    e.set(output, name);
    Ok(())
}

fn cumulate(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let Cumulate { exclusive, reverse, .. } = *attributes::<Cumulate>(e, node)?;
    let (input, output) = (e.node(node).inputs[0], e.node(node).outputs[0]);
    let (x, axis) = (e.plain(input)?, scalar(e, DType::I32, -1.0));
    let flags = vec![int("exclusive", exclusive.into()), int("reverse", reverse.into())];
    let name = e.writer.one("CumSum", &[&x, &axis], flags);
    e.set(output, name);
    Ok(())
}

fn take_along(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let (inputs, output) = (&e.node(node).inputs, e.node(node).outputs[0]);
    let (x, ids) = (e.plain(inputs[0])?, e.plain(inputs[1])?);
    let name = e.writer.one("GatherElements", &[&x, &ids], vec![int("axis", -1)]);
    e.set(output, name);
    Ok(())
}

/// Updates added to zeros.
fn sum_along(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let (inputs, output) = (&e.node(node).inputs, e.node(node).outputs[0]);
    let (ids, updates) = (e.plain(inputs[0])?, e.plain(inputs[1])?);
    let (zero, shape) = (scalar(e, e.dtype(output), 0.0), e.sizes(e.shape(output)));
    let zeros = e.writer.one("Expand", &[&zero, &shape], vec![]);
    let how = vec![int("axis", -1), text("reduction", "add")];
    let name = e.writer.one("ScatterElements", &[&zeros, &ids, &updates], how);
    e.set(output, name);
    Ok(())
}

fn top_k(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let largest = attributes::<TopK>(e, node)?.largest;
    let (input, outputs) = (e.node(node).inputs[0], &e.node(node).outputs);
    let k = e.family.sizes(node, "k")?;
    let (x, k) = (e.plain(input)?, e.sizes(&k));
    let how = vec![int("axis", -1), int("largest", largest.into())];
    let names = e.writer.node("TopK", &[&x, &k], how, outputs.len());
    for (value, name) in outputs.iter().zip(names) {
        e.set(*value, name);
    }
    Ok(())
}
