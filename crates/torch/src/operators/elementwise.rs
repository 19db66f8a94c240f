//! Arithmetic, element by element.

use lessen_base::Result;
use lessen_graph::{DType, Tensor};

use crate::call::{Call, Operators, one};
use crate::images::{through, through_both};
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("abs", |call| unary(call, Tensor::abs)),
    ("add", |call| scaled(call, |a, b| a + b)),
    ("addcdiv", |call| joined(call, |a, b| a / b)),
    ("addcmul", |call| joined(call, |a, b| a * b)),
    ("ceil", |call| unary(call, Tensor::ceil)),
    ("cosh", |call| unary(call, |x| (x.exp() + (-x).exp()) * 0.5)),
    ("cos", |call| unary(call, Tensor::cos)),
    ("div", div),
    ("erf", |call| unary(call, Tensor::erf)),
    ("exp", |call| unary(call, Tensor::exp)),
    ("exp2", |call| unary(call, |x| (x * std::f64::consts::LN_2).exp())),
    ("expm1", |call| unary(call, |x| x.exp() - 1.0)),
    ("floor", |call| unary(call, Tensor::floor)),
    ("floor_divide", |call| {
        let (a, b) = call.both("self", "other")?;
        one(floored(a, b))
    }),
    ("lerp", lerp),
    ("logaddexp", |call| {
        binary(call, |a, b| {
            let most = a.maximum(b);
            most + ((-(a - b).abs()).exp() + 1.0).log()
        })
    }),
    ("log", |call| unary(call, Tensor::log)),
    ("log10", |call| unary(call, |x| x.log() * std::f64::consts::LOG10_E)),
    ("log1p", |call| unary(call, |x| (x + 1.0).log())),
    ("log2", |call| unary(call, |x| x.log() * std::f64::consts::LOG2_E)),
    ("maximum", |call| binary(call, Tensor::maximum)),
    ("minimum", |call| binary(call, Tensor::minimum)),
    ("mul", multiply),
    ("nan_to_num", |call| {
        let bounds = [
            call.float("nan", 0.0)?,
            call.float("posinf", f32::MAX.into())?,
            call.float("neginf", f32::MIN.into())?,
        ];
        unary(call, |x| {
            let [nan, most, least] = bounds.map(|bound| x.scalar_like(bound));
            let x = x.eq(x).select(x, nan);
            let x = x.eq(x.scalar_like(f64::INFINITY)).select(most, x);
            x.eq(x.scalar_like(f64::NEG_INFINITY)).select(least, x)
        })
    }),
    ("neg", |call| {
        let x = call.x()?;
        one(through(x, |x| if x.dtype().is_float() { -x } else { x * -1 }))
    }),
    ("pow", pow),
    ("reciprocal", |call| unary(call, Tensor::recip)),
    ("remainder", |call| {
        let (a, b) = call.both("self", "other")?;
        one(a - floored(a, b) * b)
    }),
    ("round", |call| unary(call, Tensor::round)),
    ("rsqrt", |call| unary(call, Tensor::rsqrt)),
    ("rsub", |call| scaled(call, |a, b| b - a)),
    ("sign", |call| unary(call, Tensor::sign)),
    ("sinh", |call| unary(call, |x| (x.exp() - (-x).exp()) * 0.5)),
    ("sin", |call| unary(call, Tensor::sin)),
    ("sqrt", |call| unary(call, Tensor::sqrt)),
    ("square", |call| unary(call, |x| x * x)),
    ("sub", |call| scaled(call, |a, b| a - b)),
    ("tan", |call| unary(call, |x| x.sin() / x.cos())),
    ("trunc", |call| unary(call, |x| x.sign() * x.abs().floor())),
];

/// A function of the elements as floats.
pub fn unary(call: &Call<'_, '_>, f: impl FnOnce(Tensor) -> Tensor) -> Result<Value> {
    one(through(call.float_x()?, f))
}

/// A function of the elements of `self` and `other`.
pub fn binary(call: &Call<'_, '_>, f: impl FnOnce(Tensor, Tensor) -> Tensor) -> Result<Value> {
    let (a, b) = call.both("self", "other")?;
    let (a, b) = if a.dtype() == DType::Bool {
        (a.cast(DType::I32), b.cast(DType::I32))
    } else {
        (a, b)
    };
    one(through_both(a, b, f))
}

/// A sum or difference, whose second part has a factor `alpha`.
fn scaled(call: &mut Call<'_, '_>, f: impl FnOnce(Tensor, Tensor) -> Tensor) -> Result<Value> {
    let alpha = call.float("alpha", 1.0)?;
    binary(call, |a, b| f(a, if alpha == 1.0 { b } else { b * alpha }))
}

/// A product; of truth values it is their conjunction.
fn multiply(call: &mut Call<'_, '_>) -> Result<Value> {
    let (a, b) = call.both("self", "other")?;
    if a.dtype() != DType::Bool {
        return binary(call, |a, b| a * b);
    }
    let y = a.and(b);
    call.surroundings.masks.joined(a, b, y);
    one(y)
}

/// A quotient rounded down.
fn floored(a: Tensor, b: Tensor) -> Tensor {
    let dtype = a.dtype();
    if dtype.is_float() {
        return (a / b).floor();
    }
    (a.cast(DType::F64) / b.cast(DType::F64)).floor().cast(dtype)
}

fn div(call: &mut Call<'_, '_>) -> Result<Value> {
    let (a, b) = call.both("self", "other")?;
    let mode = call.text("rounding_mode");
    if mode.as_deref() == Some("floor") {
        return one(floored(a, b));
    }
    let is_whole = !a.dtype().is_float();
    if mode.is_some() {
        let y = a / b;
        return one(if is_whole { y } else { y.sign() * y.abs().floor() });
    }
    let (a, b) = if is_whole {
        (a.cast(DType::F32), b.cast(DType::F32))
    } else {
        (a, b)
    };
    one(through_both(a, b, |a, b| a / b))
}

fn pow(call: &mut Call<'_, '_>) -> Result<Value> {
    let exponent = call.value(if call.has("exponent") { "exponent" } else { "other" });
    let (base, number) = (call.x(), exponent.number());
    let (Ok(x), Some(number)) = (base, number) else {
        let (a, b) = call.both("self", "exponent")?;
        return one(through_both(a, b, Tensor::pow));
    };
    let is_fraction = number.fract() != 0.0 || number < 0.0;
    let x = if is_fraction && !x.dtype().is_float() {
        x.cast(DType::F32)
    } else {
        x
    };
    one(through(x, |x| match number {
        1.0 => x,
        2.0 => x * x,
        3.0 => x * x * x,
        0.5 => x.sqrt(),
        -0.5 => x.rsqrt(),
        -1.0 => x.recip(),
        number => x.pow(x.scalar_like(number)),
    }))
}

/// `self + value f(tensor1, tensor2)`
fn joined(call: &mut Call<'_, '_>, f: impl FnOnce(Tensor, Tensor) -> Tensor) -> Result<Value> {
    let value = call.float("value", 1.0)?;
    let (a, b) = call.both("tensor1", "tensor2")?;
    let product = f(a, b);
    let product = if value == 1.0 { product } else { product * value };
    one(call.x()? + product)
}

/// `self + weight (end - self)`
fn lerp(call: &mut Call<'_, '_>) -> Result<Value> {
    let (a, b) = call.both("self", "end")?;
    let weight = call.tensor("weight")?.cast(a.dtype());
    one(a + (b - a) * weight)
}
