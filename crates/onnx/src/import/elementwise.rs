//! Functions of single numbers.

use lessen_base::Result;
use lessen_graph::{DType, Tensor};

use super::Value;
use super::call::{Call, Operators, one};
use super::layout::{through, through_both};
use crate::element::Element;

pub(crate) const OPERATORS: Operators = &[
    ("Abs", |call| unary(call, Tensor::abs)),
    ("Add", |call| arithmetic(call, |a, b| a + b)),
    ("And", |call| binary(call, Tensor::and)),
    ("Cast", cast),
    ("CastLike", cast_like),
    ("Ceil", |call| unary(call, Tensor::ceil)),
    ("Clip", clip),
    ("Cos", |call| unary(call, Tensor::cos)),
    ("Div", |call| binary(call, |a, b| a / b)),
    ("Dropout", dropout),
    ("Equal", |call| binary(call, Tensor::eq)),
    ("Erf", |call| unary(call, Tensor::erf)),
    ("Exp", |call| unary(call, Tensor::exp)),
    ("Floor", |call| unary(call, Tensor::floor)),
    ("Greater", |call| binary(call, Tensor::gt)),
    ("GreaterOrEqual", |call| binary(call, Tensor::ge)),
    ("Identity", |call| unary(call, |x| x)),
    ("IsNaN", |call| unary(call, |x| not(x.eq(x)))),
    ("Less", |call| binary(call, Tensor::lt)),
    ("LessOrEqual", |call| binary(call, Tensor::le)),
    ("Log", |call| unary(call, Tensor::log)),
    ("Max", |call| variadic(call, Tensor::maximum)),
    ("Min", |call| variadic(call, Tensor::minimum)),
    ("Mul", |call| arithmetic(call, |a, b| a * b)),
    ("Neg", |call| unary(call, |x| -x)),
    ("Not", |call| unary(call, not)),
    ("Or", |call| binary(call, |a, b| not(not(a).and(not(b))))),
    ("Pow", pow),
    ("Reciprocal", |call| unary(call, Tensor::recip)),
    ("Round", |call| unary(call, Tensor::round)),
    ("Sign", |call| unary(call, Tensor::sign)),
    ("Sin", |call| unary(call, Tensor::sin)),
    ("Sqrt", |call| unary(call, Tensor::sqrt)),
    ("Sub", |call| arithmetic(call, |a, b| a - b)),
    ("Sum", |call| variadic(call, |a, b| a + b)),
    ("Where", select),
];

pub(super) fn unary(call: &mut Call<'_>, f: impl Fn(Tensor) -> Tensor) -> Result<Vec<Value>> {
    one(through(call.tensor(0)?, f))
}

/// Dropout of inference, which drops nothing; the second output says that every element is kept.
fn dropout(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let is_training = match call.opset {
        ..7 => call.int("is_test", 0) == 0,
        7..10 if call.node.proto.output.len() > 1 => return call.unknown("a mask of numbers"),
        _ => call.has(2) && call.known(2).is_none_or(|mode| mode.data.first() != Some(&0.0)),
    };
    if is_training {
        return call.unknown("dropout of training");
    }
    let x = call.tensor(0)?;
    let kept = call.trace.full(DType::Bool, &x.shape(), 1.0);
    Ok(vec![Value::Traced(x), Value::Traced(kept)])
}

fn binary(call: &mut Call<'_>, f: impl Fn(Tensor, Tensor) -> Tensor) -> Result<Vec<Value>> {
    one(through_both(call.tensor(0)?, call.tensor(1)?, f))
}

/// A function of two numbers that wraps for integers, as those of the program do.
fn arithmetic(call: &mut Call<'_>, f: impl Fn(Tensor, Tensor) -> Tensor) -> Result<Vec<Value>> {
    let are_integers = call.inputs.iter().flatten().any(|x| matches!(x, Value::Integers(_)));
    let y = through_both(call.tensor(0)?, call.tensor(1)?, f);
    Ok(vec![if are_integers {
        Value::Integers(y)
    } else {
        Value::Traced(y)
    }])
}

fn variadic(call: &mut Call<'_>, f: impl Fn(Tensor, Tensor) -> Tensor) -> Result<Vec<Value>> {
    let mut all = call.tensor(0)?;
    for input in 1..call.inputs.len() {
        all = through_both(all, call.tensor(input)?, &f);
    }
    one(all)
}

/// The opposite of a truth value.
fn not(x: Tensor) -> Tensor {
    x.eq(x.scalar_like(0.0))
}

fn cast(call: &mut Call<'_>) -> Result<Vec<Value>> {
    match Element::of(call.int("to", 0) as i32).filter(|element| element.is_traced()) {
        Some(Element::Int(4)) if call.held.is_some() => {
            let y = through(call.tensor(0)?, cut);
            Ok(vec![Value::Integers(y)])
        }
        Some(element) => one(cast_to(call.tensor(0)?, element.dtype())),
        None => call.unknown("a cast to this type"),
    }
}

fn cast_like(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let dtype = call.ty(1)?.dtype;
    one(cast_to(call.tensor(0)?, dtype))
}

/// Numbers without their fractions as `i32`; those beyond its range, and NaN, become its least number.
fn cut(x: Tensor) -> Tensor {
    let y = x.cast(DType::I32);
    if !x.dtype().is_float() {
        return y;
    }
    let (least, end) = (f64::from(i32::MIN), -f64::from(i32::MIN));
    let fits = x.ge(x.scalar_like(least)).and(x.lt(x.scalar_like(end)));
    fits.select(y, y.scalar_like(least))
}

/// A number is true unless it is zero.
fn cast_to(x: Tensor, dtype: DType) -> Tensor {
    match dtype {
        DType::Bool if x.dtype() != DType::Bool => not(x.eq(x.scalar_like(0.0))),
        _ => x.cast(dtype),
    }
}

fn clip(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    // An absent bound is the type's last finite number.
    let least = if x.dtype() == DType::F64 {
        f64::MIN
    } else {
        f32::MIN.into()
    };
    let bound = |call: &Call<'_>, input: usize, attribute: &str, default: f64| {
        if call.has(input) {
            call.known(input).and_then(|array| array.data.first().copied())
        } else {
            Some(call.float(attribute, default))
        }
    };
    match (bound(call, 1, "min", least), bound(call, 2, "max", -least)) {
        (Some(low), Some(high)) => one(through(x, |x| x.clamp(low, high))),
        _ => call.unknown("a bound that is computed"),
    }
}

/// A power; squares and cubes are products.
fn pow(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let exponent = call
        .known(1)
        .filter(|array| array.data.len() == 1)
        .map(|array| array.data[0]);
    match exponent {
        Some(1.0) => one(x),
        Some(2.0) => one(x * x),
        Some(3.0) => one(x * x * x),
        Some(0.5) if x.dtype().is_float() => one(x.sqrt()),
        Some(exponent) if x.dtype().is_float() => one(x.pow(x.scalar_like(exponent))),
        _ => {
            let exponent = call.tensor(1)?.cast(x.dtype());
            one(x.pow(exponent))
        }
    }
}

fn select(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let (condition, a, b) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    one(condition.select(a, b))
}
