//! Norms, softmax and reductions.

use lessen_base::Result;
use lessen_graph::ops::reduction::reduce::{Reduce, ReduceKind};
use lessen_graph::ops::{LayerNorm, LogSoftmax, RmsNorm, ScaleShift, Softmax};
use lessen_graph::{Array, DType, Named, Type, ValueId};

use super::parameters::{attributes, scalar};
use super::{Operation, always};
use crate::export::emitter::Emitter;
use crate::export::writer::{float, int, ints};

pub(super) const OPERATIONS: &[Operation] = &[
    always(LayerNorm::NAME, layer_norm),
    always(LogSoftmax::NAME, log_softmax),
    always(Reduce::NAME, reduce),
    always(RmsNorm::NAME, rms_norm),
    always(ScaleShift::NAME, scale_shift),
    always(Softmax::NAME, softmax),
];

fn layer_norm(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let eps = attributes::<LayerNorm>(e, node)?.eps;
    let (inputs, outputs) = (&e.node(node).inputs, &e.node(node).outputs);
    let [x, scale] = [e.plain(inputs[0])?, vector(e, inputs[1])?];
    let mut operands = vec![x, scale];
    if e.constant_fill(inputs[2]) != Some(0.0) {
        operands.push(vector(e, inputs[2])?);
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let attributes = vec![int("axis", -1), float("epsilon", eps)];
    let name = e.writer.one("LayerNormalization", &operands, attributes);
    e.set(outputs[0], name);
    Ok(())
}

/// A vector, as a constant where it is one.
fn vector(e: &mut Emitter<'_>, value: ValueId) -> Result<String> {
    if e.values[value.index()].parameter.is_some() {
        return e.plain(value);
    }
    match e.known(value)? {
        Some(array) => e.constant(&array),
        None => e.plain(value),
    }
}

/// RMSNorm as the operator of version 23, or in the primitive operators that ONNX Runtime joins to one.
fn rms_norm(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let eps = attributes::<RmsNorm>(e, node)?.eps;
    let (inputs, outputs) = (&e.node(node).inputs, &e.node(node).outputs);
    let [x, scale] = [e.plain(inputs[0])?, vector(e, inputs[1])?];
    let name = if e.opset >= 23 {
        let attributes = vec![int("axis", -1), float("epsilon", eps)];
        e.writer.one("RMSNormalization", &[&x, &scale], attributes)
    } else {
        let dtype = e.dtype(inputs[0]);
        let [two, eps] = [2.0, eps].map(|number| scalar(e, dtype, number));
        let squares = e.writer.one("Pow", &[&x, &two], vec![]);
        let mean = reduction(e, "ReduceMean", &squares, &[-1], true);
        let sum = e.writer.one("Add", &[&mean, &eps], vec![]);
        let root = e.writer.one("Sqrt", &[&sum], vec![]);
        let normalized = e.writer.one("Div", &[&x, &root], vec![]);
        e.writer.one("Mul", &[&normalized, &scale], vec![])
    };
    e.set(outputs[0], name);
    Ok(())
}

/// Batch normalization by constants, or a product and a sum.
fn scale_shift(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let (inputs, output) = (&e.node(node).inputs, e.node(node).outputs[0]);
    let rank = e.shape(inputs[0]).len();
    let constants = [e.known(inputs[1])?, e.known(inputs[2])?, e.known(inputs[3])?];
    if let [Some(center), Some(scale), Some(shift)] = constants
        && (rank == 4 || rank == 2)
    {
        let one = Array::full(Type::new(DType::F32, &center.ty.shape), 1.0);
        let mut names = Vec::new();
        for array in [scale.as_ref(), shift.as_ref(), center.as_ref(), &one] {
            names.push(e.constant(array)?);
        }
        let x = if rank == 4 {
            e.channels_first(inputs[0])?
        } else {
            e.plain(inputs[0])?
        };
        let operands = [&x, &names[0], &names[1], &names[2], &names[3]].map(String::as_str);
        let name = e
            .writer
            .one("BatchNormalization", &operands, vec![float("epsilon", 0.0)]);
        if rank == 4 {
            e.set_channels_first(output, name);
        } else {
            e.set(output, name);
        }
        return Ok(());
    }
    let mut names = Vec::new();
    for value in inputs {
        names.push(e.plain(*value)?);
    }
    let centred = e.writer.one("Sub", &[&names[0], &names[1]], vec![]);
    let scaled = e.writer.one("Mul", &[&centred, &names[2]], vec![]);
    let name = e.writer.one("Add", &[&scaled, &names[3]], vec![]);
    e.set(output, name);
    Ok(())
}

fn softmax(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    last_axis(e, node, "Softmax")
}

fn log_softmax(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    last_axis(e, node, "LogSoftmax")
}

fn last_axis(e: &mut Emitter<'_>, node: usize, operator: &str) -> Result<()> {
    let (input, output) = (e.node(node).inputs[0], e.node(node).outputs[0]);
    let x = e.plain(input)?;
    let name = e.writer.one(operator, &[&x], vec![int("axis", -1)]);
    e.set(output, name);
    Ok(())
}

fn reduce(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let Reduce { kind, axes } = attributes::<Reduce>(e, node)?;
    let (input, output) = (e.node(node).inputs[0], e.node(node).outputs[0]);
    let operator = match kind {
        ReduceKind::Sum => "ReduceSum",
        ReduceKind::Max => "ReduceMax",
        ReduceKind::Min => "ReduceMin",
    };
    let name = reduced(e, operator, input, axes, false)?;
    e.set(output, name);
    Ok(())
}

/// Reduces axes of a value, of images in the form that they are in. Of those with their channels first all pixels are
/// reduced, so that the order of the axes that are left is that of the graph.
///
/// # Errors
/// As [`Emitter::plain`].
pub(super) fn reduced(e: &mut Emitter<'_>, operator: &str, x: ValueId, axes: &[usize], keeps: bool) -> Result<String> {
    let own: Vec<i64> = axes.iter().map(|axis| *axis as i64).collect();
    let pixels: Vec<i64> = (1..e.shape(x).len() as i64 - 1).collect();
    if e.is_channels_first(x) && own == pixels && !keeps {
        let images = e.channels_first(x)?;
        let axes: Vec<i64> = pixels.iter().map(|axis| axis + 1).collect();
        return Ok(reduction(e, operator, &images, &axes, false));
    }
    let x = e.plain(x)?;
    Ok(reduction(e, operator, &x, &own, keeps))
}

/// Reduces axes of a value of the file. Sums take the axes as an input from version 13 on, the others from version 18.
pub(super) fn reduction(e: &mut Emitter<'_>, operator: &str, x: &str, axes: &[i64], keeps: bool) -> String {
    let keeps = int("keepdims", keeps.into());
    if operator == "ReduceSum" || e.opset >= 18 {
        let axes = e.writer.ints(axes);
        return e.writer.one(operator, &[x, &axes], vec![keeps]);
    }
    e.writer.one(operator, &[x], vec![ints("axes", axes), keeps])
}
