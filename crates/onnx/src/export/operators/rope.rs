//! Rotation of heads by positions.

use lessen_base::Result;
use lessen_graph::ops::Rope;
use lessen_graph::{Array, DType, Named, ValueId};

use super::parameters::attributes;
use super::{Operation, always};
use crate::export::emitter::Emitter;
use crate::export::writer::int;

pub(super) const OPERATIONS: &[Operation] = &[always(Rope::NAME, rope)];

/// Rotates `[B, T, H, D]` by cosines and sines `[T, 1, D / 2]`, which all rotations by the same positions share.
fn rope(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let rope = *attributes::<Rope>(e, node)?;
    let (inputs, output) = (&e.node(node).inputs, e.node(node).outputs[0]);
    let width = e.fixed_shape_of_last(inputs[0])?;
    let [cos, sin] = angles(e, &rope, inputs[1], width)?;
    let x = e.plain(inputs[0])?;
    let half = (width / 2) as i64;
    let sizes = e.writer.ints(&[half, half]);
    let halves = e.writer.node("Split", &[&x, &sizes], vec![int("axis", -1)], 2);
    let mut product = |x: &str, by: &str| e.writer.one("Mul", &[x, by], vec![]);
    let products = [
        product(&halves[0], &cos),
        product(&halves[1], &sin),
        product(&halves[1], &cos),
        product(&halves[0], &sin),
    ];
    let first = e.writer.one("Sub", &[&products[0], &products[1]], vec![]);
    let second = e.writer.one("Add", &[&products[2], &products[3]], vec![]);
    let name = e.writer.one("Concat", &[&first, &second], vec![int("axis", -1)]);
    e.set(output, name);
    Ok(())
}

/// The names of the cosines and sines of the angles of all positions.
fn angles(e: &mut Emitter<'_>, rope: &Rope, positions: ValueId, width: usize) -> Result<[String; 2]> {
    let positions = e.plain(positions)?;
    let sign = if rope.inverse { -1.0 } else { 1.0 };
    let frequencies: Vec<f64> = rope.frequencies(width).into_iter().map(|x| sign * x).collect();
    let rotation = format!("{positions} {frequencies:?}");
    let angles = e.once(format!("angles {rotation}"), |e| {
        let frequencies = e.constant(&Array::f32(&[1, width / 2], frequencies))?;
        let to = e.element(DType::F32)?;
        let numbers = e.writer.one("Cast", &[&positions], vec![int("to", to.into())]);
        let axes = e.writer.ints(&[1]);
        let column = e.writer.one("Unsqueeze", &[&numbers, &axes], vec![]);
        Ok(e.writer.one("Mul", &[&column, &frequencies], vec![]))
    })?;
    let mut of = |function: &str| {
        e.once(format!("{function} {rotation}"), |e| {
            let values = e.writer.one(function, &[&angles], vec![]);
            let axes = e.writer.ints(&[1]);
            Ok(e.writer.one("Unsqueeze", &[&values, &axes], vec![]))
        })
    };
    Ok([of("Cos")?, of("Sin")?])
}
