//! Element-wise operators on 8-bit integers with scales and zero points.

use lessen_base::Result;

use super::quantized::{levels, narrowed};
use super::sizes::{around, broadcast, room, spread};
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("com.microsoft", "QLinearAdd", |call| binary(call, |a, b| a + b)),
    ("com.microsoft", "QLinearMul", |call| binary(call, |a, b| a * b)),
    ("com.microsoft", "QLinearConcat", concat),
    ("com.microsoft", "QLinearLeakyRelu", leaky_relu),
    ("com.microsoft", "QLinearSigmoid", |call| {
        unary(call, |x| 1.0 / (1.0 + (-x).exp()))
    }),
];

/// Scale and zero point of integers of one type.
struct Grain {
    scale: f32,
    zero: f32,
    is_signed: bool,
}

impl Grain {
    /// The grain of integers like `like`, whose scale and zero point are two inputs.
    fn of(call: &HostCall<'_>, like: &HostTensor, scale: usize, zero: usize) -> Result<Grain> {
        let is_signed = match like.element() {
            Some(Element::Int(1)) => true,
            Some(Element::Unsigned(1)) => false,
            _ => return call.refused("its integers have not 8 bits"),
        };
        let zero_point = call.optional(zero)?;
        let fits = zero_point.is_none_or(|zero| zero.len() == 1 && zero.element() == like.element());
        if call.tensor(scale)?.len() != 1 || !fits {
            return call.refused("a scale or a zero point is not one number of the type of its integers");
        }
        Ok(Grain {
            scale: call.number(scale)? as f32,
            zero: if zero_point.is_some() {
                call.number(zero)? as f32
            } else {
                0.0
            },
            is_signed,
        })
    }

    /// The numbers that integers stand for.
    fn numbers(&self, tensor: &HostTensor) -> Result<Vec<f32>> {
        let all = levels(tensor)?;
        Ok(all.into_iter().map(|x| (x as f32 - self.zero) * self.scale).collect())
    }

    /// The integers nearest to numbers.
    fn integers(&self, all: impl Iterator<Item = f32>) -> Data {
        let (least, most) = if self.is_signed { (-128.0, 127.0) } else { (0.0, 255.0) };
        let all = all.map(|x| ((x / self.scale).round_ties_even() + self.zero).clamp(least, most));
        narrowed(all, self.is_signed)
    }
}

fn binary(call: &HostCall<'_>, of: fn(f32, f32) -> f32) -> Result<Vec<HostValue>> {
    let (a, b) = (call.tensor(0)?, call.tensor(3)?);
    if a.element() != b.element() {
        return call.refused("its inputs have different types");
    }
    let (a_grain, b_grain, grain) = (
        Grain::of(call, a, 1, 2)?,
        Grain::of(call, b, 4, 5)?,
        Grain::of(call, a, 6, 7)?,
    );
    let shape = broadcast(a.shape(), b.shape())?;
    room(&shape)?;
    let left = spread(&a_grain.numbers(a)?, a.shape(), &shape)?;
    let right = spread(&b_grain.numbers(b)?, b.shape(), &shape)?;
    let all = left.into_iter().zip(right).map(|(a, b)| of(a, b));
    one(HostTensor::new(&shape, grain.integers(all))?)
}

fn unary(call: &HostCall<'_>, of: impl Fn(f32) -> f32) -> Result<Vec<HostValue>> {
    let x = call.tensor(0)?;
    let (from, to) = (Grain::of(call, x, 1, 2)?, Grain::of(call, x, 3, 4)?);
    let all = from.numbers(x)?.into_iter().map(of);
    one(HostTensor::new(x.shape(), to.integers(all))?)
}

fn leaky_relu(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let alpha = call.float("alpha", 0.01) as f32;
    unary(call, |x| if x < 0.0 { alpha * x } else { x })
}

fn concat(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let count = call.inputs.len().saturating_sub(2) / 3;
    if count == 0 || call.inputs.len() != 2 + 3 * count {
        return call.refused("its inputs are not triples of integers, scale and zero point");
    }
    let to = Grain::of(call, call.tensor(1)?, 0, 1)?;
    let parts = (0..count).map(|i| call.tensor(2 + 3 * i)).collect::<Result<Vec<_>>>()?;
    let mut shape = parts[0].shape().to_vec();
    let axis = call.axis(call.int("axis", 0), shape.len())?;
    shape[axis] = 0;
    for part in &parts {
        let fits = part.rank() == shape.len() && (0..shape.len()).all(|i| i == axis || part.shape()[i] == shape[i]);
        if !fits {
            return call.refused("the extents of its inputs do not fit");
        }
        shape[axis] = shape[axis].saturating_add(part.shape()[axis]);
    }
    let total = room(&shape)?;
    let (outer, _, inner) = around(&shape, axis);
    let numbers = parts.iter().enumerate().map(|(i, part)| {
        let numbers = Grain::of(call, part, 3 + 3 * i, 4 + 3 * i)?.numbers(part)?;
        Ok((part.shape()[axis].saturating_mul(inner), numbers))
    });
    let numbers = numbers.collect::<Result<Vec<_>>>()?;
    let mut all = Vec::with_capacity(total);
    if total > 0 {
        for o in 0..outer {
            for (width, numbers) in &numbers {
                all.extend_from_slice(&numbers[o * width..(o + 1) * width]);
            }
        }
    }
    one(HostTensor::new(&shape, to.integers(all.into_iter()))?)
}
