//! Functions of one element of each input.

use lessen_base::Result;
use lessen_graph::ops::elementwise::binary::BinaryKind;
use lessen_graph::ops::elementwise::compare::CompareKind;
use lessen_graph::ops::elementwise::unary::UnaryKind;
use lessen_graph::ops::reduction::reduce::{Reduce, ReduceKind};
use lessen_graph::ops::{
    Binary, Cast, Clamp, Compare, Elu, Gelu, Helu, Identity, LeakyRelu, Relu, Select, Silu, Unary,
};
use lessen_graph::{DType, Named, ValueId};

use super::parameters::{attributes, scalar};
use super::{Operation, always};
use crate::export::emitter::{Emitter, Narrow};
use crate::export::extent::Extent;
use crate::export::writer::{element, float, int, text};

pub(super) const OPERATIONS: &[Operation] = &[
    always(Binary::NAME, binary),
    always(Cast::NAME, cast),
    always(Clamp::NAME, clamp),
    always(Compare::NAME, compare),
    always(Elu::NAME, elu),
    always(Gelu::NAME, gelu),
    always(Helu::NAME, relu),
    always(Identity::NAME, identity),
    always(LeakyRelu::NAME, leaky_relu),
    always(Relu::NAME, relu),
    always(Select::NAME, select),
    always(Silu::NAME, silu),
    always(Unary::NAME, unary),
];

/// The names of operands, and whether they are images with their channels first.
struct Operands {
    names: Vec<String>,
    channels_first: bool,
}

/// The inputs of a node that has their common shape, without repetitions that the operators of ONNX do by themselves.
fn operands(e: &mut Emitter<'_>, node: usize) -> Result<Operands> {
    let (inputs, output) = (&e.node(node).inputs, e.node(node).outputs[0]);
    let rank = e.shape(output).len();
    let is_image = (rank == 3 || rank == 4) && inputs.iter().any(|value| e.is_channels_first(*value));
    if is_image {
        let found: Option<Vec<(String, bool)>> = inputs
            .iter()
            .map(|value| image_operand(e, *value, rank).transpose())
            .collect::<Option<Result<_>>>()
            .transpose()?;
        if let Some(found) = found
            && found.iter().any(|(_, is_whole)| *is_whole)
        {
            return Ok(Operands {
                names: found.into_iter().map(|(name, _)| name).collect(),
                channels_first: true,
            });
        }
    }
    let mut found = Vec::new();
    for value in inputs {
        found.push(reduced(e, *value)?);
    }
    // Where an extent of the result is in no operand, one is repeated.
    let shape = e.shape(output);
    let covers = |(axis, extent): (usize, &Extent)| {
        let has = |own: &[Extent]| {
            (own.len() + axis)
                .checked_sub(shape.len())
                .is_some_and(|axis| own[axis] == *extent)
        };
        extent.is_one() || found.iter().any(|(_, own)| has(own))
    };
    if !shape.iter().enumerate().all(covers) && !inputs.is_empty() {
        found[0] = (e.plain(inputs[0])?, shape.to_vec());
    }
    // The result has all axes, also where the operands have fewer.
    if found.iter().all(|(_, own)| own.len() < shape.len()) && !inputs.is_empty() {
        found[0] = (e.plain(inputs[0])?, shape.to_vec());
    }
    Ok(Operands {
        names: found.into_iter().map(|(name, _)| name).collect(),
        channels_first: false,
    })
}

/// A value, or what it repeats, with its extents.
fn reduced(e: &mut Emitter<'_>, value: ValueId) -> Result<(String, Vec<Extent>)> {
    if let Some(number) = e.fill(value) {
        return Ok((e.number(e.dtype(value), &number)?, Vec::new()));
    }
    match e.values[value.index()].narrow.clone() {
        Some(narrow) => e.narrow(&narrow),
        None => Ok((e.plain(value)?, e.shape(value).to_vec())),
    }
}

/// An operand beside images with their channels first, and whether it has all their extents; none where it has no such
/// form without moving elements.
fn image_operand(e: &mut Emitter<'_>, value: ValueId, rank: usize) -> Result<Option<(String, bool)>> {
    if let Some(number) = e.fill(value) {
        return Ok(Some((e.number(e.dtype(value), &number)?, false)));
    }
    if let Some(name) = &e.values[value.index()].channels_first {
        return Ok(Some((name.clone(), true)));
    }
    let Some(Narrow::Value(inner)) = e.values[value.index()].narrow.clone() else {
        return Ok(None);
    };
    match e.shape(inner) {
        [_] => {
            if let Some(known) = e.known(inner)? {
                let mut shape = vec![1; rank - 1];
                shape[0] = known.ty.numel();
                let mut array = known.as_ref().clone();
                array.ty = lessen_graph::Type::new(array.ty.dtype, &shape);
                return Ok(Some((e.constant(&array)?, false)));
            }
            let axes: Vec<i64> = (1..rank as i64 - 1).collect();
            let (name, axes) = (e.plain(inner)?, e.writer.ints(&axes));
            Ok(Some((e.writer.one("Unsqueeze", &[&name, &axes], vec![]), false)))
        }
        [..] if e.shape(inner).len() == rank && (e.is_channels_first(inner) || e.is_one_pixel(inner)) => {
            Ok(Some((e.channels_first(inner)?, false)))
        }
        _ => Ok(None),
    }
}

/// Sets the result of a node from its operands.
fn result(e: &mut Emitter<'_>, node: usize, write: impl FnOnce(&mut Emitter<'_>, &[&str]) -> String) -> Result<()> {
    let operands = operands(e, node)?;
    let names: Vec<&str> = operands.names.iter().map(String::as_str).collect();
    let name = write(e, &names);
    let output = e.node(node).outputs[0];
    if operands.channels_first {
        e.set_channels_first(output, name);
    } else {
        e.set(output, name);
    }
    Ok(())
}

fn unary(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let kind = attributes::<Unary>(e, node)?.kind;
    let operator = match kind {
        UnaryKind::Neg => "Neg",
        UnaryKind::Exp => "Exp",
        UnaryKind::Log => "Log",
        UnaryKind::Sqrt | UnaryKind::Rsqrt => "Sqrt",
        UnaryKind::Recip => "Reciprocal",
        UnaryKind::Tanh => "Tanh",
        UnaryKind::Erf => "Erf",
        UnaryKind::Sigmoid => "Sigmoid",
        UnaryKind::Abs => "Abs",
        UnaryKind::Sign => "Sign",
        UnaryKind::Sin => "Sin",
        UnaryKind::Cos => "Cos",
        UnaryKind::Floor => "Floor",
        UnaryKind::Ceil => "Ceil",
        UnaryKind::Round => "Round",
        UnaryKind::Half => "Cast",
    };
    let wide = e.element(e.dtype(e.node(node).inputs[0]))?;
    result(e, node, |e, x| match kind {
        UnaryKind::Half => {
            let narrow = e.writer.one(operator, x, vec![int("to", element::HALF.into())]);
            e.writer.one(operator, &[&narrow], vec![int("to", wide.into())])
        }
        UnaryKind::Rsqrt => {
            let y = e.writer.one(operator, x, vec![]);
            e.writer.one("Reciprocal", &[&y], vec![])
        }
        _ => e.writer.one(operator, x, vec![]),
    })
}

fn binary(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let kind = attributes::<Binary>(e, node)?.kind;
    if kind == BinaryKind::Div && mean(e, node)? {
        return Ok(());
    }
    let operator = match kind {
        BinaryKind::Add => "Add",
        BinaryKind::Sub => "Sub",
        BinaryKind::Mul => "Mul",
        BinaryKind::Div => "Div",
        BinaryKind::Max => "Max",
        BinaryKind::Min => "Min",
        BinaryKind::Pow => "Pow",
    };
    result(e, node, |e, inputs| e.writer.one(operator, inputs, vec![]))
}

/// Writes a sum that is divided by the number of its terms as a mean; whether it is one.
fn mean(e: &mut Emitter<'_>, node: usize) -> Result<bool> {
    let (inputs, output) = (&e.node(node).inputs, e.node(node).outputs[0]);
    let Some(by) = e.constant_fill(inputs[1]) else {
        return Ok(false);
    };
    let Some(sum) = e.producer(inputs[0]) else {
        return Ok(false);
    };
    let Some(reduce) = sum.op.downcast_ref::<Reduce>() else {
        return Ok(false);
    };
    let x = sum.inputs[0];
    let terms = reduce.axes.iter().map(|axis| e.shape(x)[*axis].constant());
    let terms: Option<i64> = terms.product();
    if reduce.kind != ReduceKind::Sum || terms.map(|terms| terms as f64) != Some(by) {
        return Ok(false);
    }
    let name = super::norms::reduced(e, "ReduceMean", x, &reduce.axes, false)?;
    e.set(output, name);
    Ok(true)
}

fn compare(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let kind = attributes::<Compare>(e, node)?.kind;
    let operator = match kind {
        CompareKind::Eq | CompareKind::Ne => "Equal",
        CompareKind::Lt => "Less",
        CompareKind::Le => "LessOrEqual",
        CompareKind::Gt => "Greater",
        CompareKind::Ge => "GreaterOrEqual",
    };
    result(e, node, |e, inputs| {
        let y = e.writer.one(operator, inputs, vec![]);
        if kind == CompareKind::Ne {
            e.writer.one("Not", &[&y], vec![])
        } else {
            y
        }
    })
}

fn select(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let inputs = &e.node(node).inputs;
    if e.dtype(inputs[1]) != DType::Bool {
        return result(e, node, |e, inputs| e.writer.one("Where", inputs, vec![]));
    }
    let otherwise = e.constant_fill(inputs[2]);
    result(e, node, |e, inputs| {
        let both = e.writer.one("And", &inputs[..2], vec![]);
        if otherwise == Some(0.0) {
            return both;
        }
        let not = e.writer.one("Not", &inputs[..1], vec![]);
        let other = e.writer.one("And", &[&not, inputs[2]], vec![]);
        e.writer.one("Or", &[&both, &other], vec![])
    })
}

fn cast(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let to = attributes::<Cast>(e, node)?.dtype;
    let (input, output) = (e.node(node).inputs[0], e.node(node).outputs[0]);
    if to == e.dtype(input) {
        e.alias(output, input);
        return Ok(());
    }
    let element = e.element(to)?;
    result(e, node, |e, x| e.writer.one("Cast", x, vec![int("to", element.into())]))
}

fn identity(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let (input, output) = (e.node(node).inputs[0], e.node(node).outputs[0]);
    e.alias(output, input);
    Ok(())
}

fn relu(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    result(e, node, |e, x| e.writer.one("Relu", x, vec![]))
}

fn leaky_relu(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let slope = attributes::<LeakyRelu>(e, node)?.slope;
    result(e, node, |e, x| {
        e.writer.one("LeakyRelu", x, vec![float("alpha", slope)])
    })
}

fn elu(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let alpha = attributes::<Elu>(e, node)?.alpha;
    result(e, node, |e, x| e.writer.one("Elu", x, vec![float("alpha", alpha)]))
}

fn clamp(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let Clamp { low, high } = *attributes::<Clamp>(e, node)?;
    let dtype = e.dtype(e.node(node).inputs[0]);
    let bounds = [low, high].map(|bound| scalar(e, dtype, bound));
    result(e, node, |e, x| {
        e.writer.one("Clip", &[x[0], &bounds[0], &bounds[1]], vec![])
    })
}

fn silu(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    result(e, node, |e, x| {
        let gate = e.writer.one("Sigmoid", x, vec![]);
        e.writer.one("Mul", &[x[0], &gate], vec![])
    })
}

/// GELU as the operator of version 20, or in the primitive operators that ONNX Runtime joins to one.
fn gelu(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let tanh = attributes::<Gelu>(e, node)?.tanh;
    if e.opset >= 20 {
        let approximate = if tanh { "tanh" } else { "none" };
        return result(e, node, |e, x| {
            e.writer.one("Gelu", x, vec![text("approximate", approximate)])
        });
    }
    let dtype = e.dtype(e.node(node).inputs[0]);
    let [half, one] = [0.5, 1.0].map(|number| scalar(e, dtype, number));
    if !tanh {
        let root = scalar(e, dtype, std::f64::consts::SQRT_2);
        return result(e, node, |e, x| {
            let scaled = e.writer.one("Div", &[x[0], &root], vec![]);
            let erf = e.writer.one("Erf", &[&scaled], vec![]);
            let sum = e.writer.one("Add", &[&erf, &one], vec![]);
            let product = e.writer.one("Mul", &[x[0], &sum], vec![]);
            e.writer.one("Mul", &[&product, &half], vec![])
        });
    }
    let root = (2.0 / std::f64::consts::PI).sqrt();
    let [three, cubic, root] = [3.0, 0.044715, root].map(|number| scalar(e, dtype, number));
    result(e, node, |e, x| {
        let cube = e.writer.one("Pow", &[x[0], &three], vec![]);
        let scaled = e.writer.one("Mul", &[&cube, &cubic], vec![]);
        let sum = e.writer.one("Add", &[x[0], &scaled], vec![]);
        let argument = e.writer.one("Mul", &[&sum, &root], vec![]);
        let tanh = e.writer.one("Tanh", &[&argument], vec![]);
        let share = e.writer.one("Add", &[&tanh, &one], vec![]);
        let halved = e.writer.one("Mul", &[x[0], &half], vec![]);
        e.writer.one("Mul", &[&halved, &share], vec![])
    })
}
