//! Products of 8-bit integers with scales and zero points, exact until they are rounded.

use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_graph::ops::QuantizeByRange;

use super::contributed_attention::Projected;
use super::matrix::Stacks;
use super::sizes::spread;
use crate::operators::real::{Real, float_of, rounded};
use lessen_onnx::Element;
use lessen_onnx::host::numel;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "MatMulInteger", matmul_integer),
    ("", "QLinearMatMul", q_linear_matmul),
    ("com.microsoft", "DynamicQuantizeMatMul", dynamic_quantize_matmul),
    ("com.microsoft", "MatMulIntegerToFloat", matmul_integer_to_float),
    ("com.microsoft", "QAttention", q_attention),
];

/// The side of a product that numbers belong to: those of the left factor are one for each row, those of the right one
/// for each column.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Side {
    Rows,
    Columns,
}

/// The numbers of an array of 8-bit integers.
///
/// # Errors
/// Other elements.
pub(crate) fn levels(tensor: &HostTensor) -> Result<Vec<i32>> {
    match tensor.data() {
        Data::I8(v) => Ok(v.iter().map(|x| i32::from(*x)).collect()),
        Data::U8(v) => Ok(v.iter().map(|x| i32::from(*x)).collect()),
        _ => Err(Error::user("one of its inputs has no integers of 8 bits")),
    }
}

/// The 8-bit integers nearest to numbers that are in their range already.
pub(super) fn narrowed(all: impl Iterator<Item = f32>, is_signed: bool) -> Data {
    if is_signed {
        all.map(|x| x.round_ties_even() as i8).collect::<Vec<_>>().into()
    } else {
        all.map(|x| x.round_ties_even() as u8).collect::<Vec<_>>().into()
    }
}

/// Numbers that belong to rows or columns, repeated to the extents of a matrix or a stack of matrices.
fn along<T: Copy>(all: &[T], of: &HostTensor, side: Side, shape: &[usize]) -> Result<Vec<T>> {
    match (all, side, of.rank()) {
        ([one], ..) => Ok(vec![*one; numel(shape)?]),
        (_, Side::Rows, 1) => spread(all, &[all.len(), 1], shape),
        _ => spread(all, of.shape(), shape),
    }
}

/// The integers of a factor less its zero points.
fn centered(factor: &HostTensor, zero: Option<&Arc<HostTensor>>, side: Side) -> Result<Vec<i32>> {
    let mut all = levels(factor)?;
    if let Some(zero) = zero {
        if zero.element() != factor.element() {
            return Err(Error::user("a zero point has another type than its integers"));
        }
        let zeros = along(&levels(zero)?, zero, side, factor.shape())?;
        all.iter_mut().zip(zeros).for_each(|(x, zero)| *x -= zero);
    }
    Ok(all)
}

/// The exact product of two factors of 8-bit integers, which wraps at 32 bits.
fn exact(
    a: (&HostTensor, Option<&Arc<HostTensor>>),
    b: (&HostTensor, Option<&Arc<HostTensor>>),
) -> Result<(Stacks, Vec<i32>)> {
    let stacks = Stacks::of(a.0.shape(), b.0.shape())?;
    let product = stacks.product(&centered(a.0, a.1, Side::Rows)?, &centered(b.0, b.1, Side::Columns)?);
    Ok((stacks, product))
}

fn matmul_integer(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let (stacks, product) = exact((a, call.optional(2)?), (b, call.optional(3)?))?;
    one(HostTensor::new(&stacks.shape, product)?)
}

fn q_linear_matmul(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (a, b) = (call.tensor(0)?, call.tensor(3)?);
    let (a_scale, b_scale) = (call.tensor(1)?, call.tensor(4)?);
    let (stacks, product) = exact((a, Some(call.tensor(2)?)), (b, Some(call.tensor(5)?)))?;
    let y_zero = call.tensor(7)?;
    if y_zero.len() != 1 || call.tensor(6)?.len() != 1 {
        return call.refused("its result has more than one scale or zero point");
    }
    let (y_scale, zero) = (call.number(6)? as f32, call.number(7)? as f32);
    let is_signed = match y_zero.element() {
        Some(Element::Int(1)) => true,
        Some(Element::Unsigned(1)) => false,
        _ => return call.refused("its result has no integers of 8 bits"),
    };
    let rows = scales(a_scale, Side::Rows, &stacks)?;
    let columns = scales(b_scale, Side::Columns, &stacks)?;
    let (least, most) = if is_signed { (-128.0, 127.0) } else { (0.0, 255.0) };
    let all = product.iter().zip(rows).zip(columns).map(|((x, row), column)| {
        let x = (*x as f32 * (row * column / y_scale)).round_ties_even() + zero;
        x.clamp(least, most)
    });
    one(HostTensor::new(&stacks.shape, narrowed(all, is_signed))?)
}

/// The scales of each element of a product.
fn scales(scale: &HostTensor, side: Side, stacks: &Stacks) -> Result<Vec<f32>> {
    let all = f32::read(scale)?;
    along(&all, scale, side, &stacks.shape)
}

/// A product of integers times the scales of both factors, plus a bias for each column.
fn scaled(
    call: &HostCall<'_>,
    (stacks, product): (Stacks, Vec<i32>),
    (a_scale, b_scale): (f32, &HostTensor),
    bias: Option<&Arc<HostTensor>>,
    element: Element,
) -> Result<Vec<HostValue>> {
    if b_scale.len() > 1 && b_scale.rank() != 1 {
        return call.refused("the scales of its second input are not one for each column");
    }
    one(scaled_array(&stacks, &product, (a_scale, b_scale), bias, element)?)
}

/// The array of [`scaled`].
fn scaled_array(
    stacks: &Stacks,
    product: &[i32],
    (a_scale, b_scale): (f32, &HostTensor),
    bias: Option<&Arc<HostTensor>>,
    element: Element,
) -> Result<HostTensor> {
    let columns = scales(b_scale, Side::Columns, stacks)?;
    let mut all: Vec<f32> = product
        .iter()
        .zip(columns)
        .map(|(x, column)| *x as f32 * (a_scale * column))
        .collect();
    if let Some(bias) = bias {
        let bias = spread(&f32::read(bias)?, bias.shape(), &stacks.shape)?;
        all.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
    }
    rounded(&stacks.shape, all, element)
}

fn matmul_integer_to_float(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (a_scale, b_scale) = (call.tensor(2)?, call.tensor(3)?);
    if a_scale.len() != 1 {
        return call.refused("its first input has more than one scale");
    }
    let product = exact(
        (call.tensor(0)?, call.optional(4)?),
        (call.tensor(1)?, call.optional(5)?),
    )?;
    let scales = (call.number(2)? as f32, &**b_scale);
    scaled(call, product, scales, call.optional(6)?, float_of(b_scale)?)
}

fn dynamic_quantize_matmul(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let a = call.tensor(0)?;
    let all = f32::read(a)?;
    let (quantized, scale, zero) = QuantizeByRange::codes(&all);
    let a_integers = HostTensor::new(a.shape(), quantized)?;
    let a_zero = Arc::new(HostTensor::scalar(zero));
    let product = exact((&a_integers, Some(&a_zero)), (call.tensor(1)?, call.optional(3)?))?;
    scaled(call, product, (scale, call.tensor(2)?), call.optional(4)?, float_of(a)?)
}

/// Attention whose projection is a product of integers.
fn q_attention(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    if call.int("do_rotary", 0) != 0 || call.int("past_present_share_buffer", 0) != 0 {
        return call.refused("its attributes do_rotary and past_present_share_buffer are not known");
    }
    let (a, b, b_scale) = (call.tensor(0)?, call.tensor(1)?, call.tensor(4)?);
    if call.tensor(3)?.len() != 1 || (b_scale.len() > 1 && b_scale.rank() != 1) {
        return call.refused("its scales are not one for its input, and one for each column of its weights");
    }
    let (stacks, product) = exact((a, call.optional(6)?), (b, call.optional(7)?))?;
    let [batch, length, columns] = stacks.shape[..] else {
        return call.refused("its input has not three axes");
    };
    if !columns.is_multiple_of(3) {
        return call.refused("the widths of its queries, keys and values do not fit its weights");
    }
    let element = float_of(b_scale)?;
    let scales = (call.number(3)? as f32, &**b_scale);
    let all = scaled_array(&stacks, &product, scales, call.optional(2)?, Element::F32)?;
    let projected = Projected {
        all: f32::read(&all)?.into_owned(),
        extents: [batch, length, columns],
        widths: vec![columns / 3; 3],
        inputs: [5, usize::MAX, 8],
        element,
    };
    projected.attend(call)
}
