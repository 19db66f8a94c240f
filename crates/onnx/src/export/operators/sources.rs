//! Values without inputs.

use lessen_base::Result;
use lessen_graph::ops::{Constant, Full, Iota};
use lessen_graph::{DType, Named};

use super::parameters::attributes;
use super::{Operation, always};
use crate::export::emitter::{Emitter, Narrow};
use crate::export::writer::int;

pub(super) const OPERATIONS: &[Operation] = &[
    always(Constant::NAME, constant),
    always(Full::NAME, full),
    always(Iota::NAME, iota),
];

fn constant(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let array = e.family.constant(node)?;
    let output = e.node(node).outputs[0];
    e.values[output.index()].known = Some(array);
    Ok(())
}

fn full(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let number = e.family.number(node, "value")?;
    let output = e.node(node).outputs[0];
    e.values[output.index()].fill = Some(number);
    Ok(())
}

/// Counts along an axis, once for each extent, and repeats the numbers along the others.
fn iota(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let Iota { ty, axis } = attributes::<Iota>(e, node)?;
    let output = e.node(node).outputs[0];
    let (extent, rank) = (e.shape(output)[*axis].clone(), e.shape(output).len());
    let counted = counted(e, ty.dtype, &extent)?;
    let others: Vec<i64> = (0..rank)
        .filter(|other| other != axis)
        .map(|other| other as i64)
        .collect();
    let name = if others.is_empty() {
        counted
    } else {
        e.once(format!("iota {counted} {others:?}"), |e| {
            let axes = e.writer.ints(&others);
            Ok(e.writer.one("Unsqueeze", &[&counted, &axes], vec![]))
        })?
    };
    let shape = (0..rank).map(|other| if other == *axis { extent.clone() } else { e.fixed(1) });
    let shape = shape.collect();
    e.set_narrow(output, Narrow::Written(name, shape));
    Ok(())
}

/// The name of the numbers from 0 up to a size, along one axis.
///
/// # Errors
/// A dtype that the file cannot hold.
pub(super) fn counted(e: &mut Emitter<'_>, dtype: DType, size: &crate::export::extent::Extent) -> Result<String> {
    let element = e.element(dtype)?;
    let size = size.clone();
    e.once(format!("counted {dtype:?} {size:?}"), |e| {
        let (end, zero, one) = (
            e.scalar_size(&size),
            e.scalar_size(&e.fixed(0)),
            e.scalar_size(&e.fixed(1)),
        );
        let numbers = e.writer.one("Range", &[&zero, &end, &one], vec![]);
        Ok(if dtype == DType::I32 {
            numbers
        } else {
            e.writer.one("Cast", &[&numbers], vec![int("to", element.into())])
        })
    })
}
