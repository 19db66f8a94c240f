//! Sums, differences, products, quotients and remainders of two arrays, and signs.

use lessen_base::Result;

use super::operands::{alike, binary, has_zero, no_type, pair, same, unary, wrapping};
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Integer, Number, each_integer, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Abs", |call| unary!(call, each_number, magnitude)),
    ("", "Add", |call| wrapping!(call, |x, y| x.plus(*y))),
    ("", "Div", quotient),
    ("", "Mod", remainder),
    ("", "Mul", |call| wrapping!(call, |x, y| x.times(*y))),
    ("", "Neg", negative),
    ("", "Sign", |call| unary!(call, each_number, sign)),
    ("", "Sub", |call| wrapping!(call, |x, y| x.minus(*y))),
];

/// The magnitude; the least integer stays as it is.
fn magnitude<T: Number>(x: T) -> T {
    // Zero is taken from, so that the sign of a float's zero goes, too.
    if x > T::ZERO || x.is_nan() { x } else { T::ZERO.minus(x) }
}

/// -1, 0 or 1; NaN of NaN.
fn sign<T: Number>(x: T) -> T {
    if x > T::ZERO {
        T::ONE
    } else if x < T::ZERO {
        T::ZERO.minus(T::ONE)
    } else {
        x
    }
}

fn negative(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    if let Some(Element::Unsigned(_)) = tensor.element() {
        return no_type(call, tensor);
    }
    unary!(call, each_number, opposite)
}

/// The number with the other sign, also of zero.
fn opposite<T: Number>(x: T) -> T {
    if T::IS_FLOAT {
        x.times(T::ZERO.minus(T::ONE))
    } else {
        T::ZERO.minus(x)
    }
}

fn quotient(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    divisible(call)?;
    binary!(call, each_wide, |x, y| x.over(*y).unwrap_or_default())
}

/// Refuses integers that would be divided by zero.
fn divisible(call: &HostCall<'_>) -> Result<()> {
    let (dividend, divisor) = (call.tensor(0)?, call.tensor(1)?);
    let by_zero = each_integer!(divisor.data(), v => has_zero(v), else false);
    if by_zero && !dividend.is_empty() {
        return call.refused("it divides an integer by zero");
    }
    Ok(())
}

/// The remainder: of integers with the divisor's sign or, by the attribute `fmod`, with the dividend's, which is the
/// only one of floats.
fn remainder(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let keeps_sign = call.int("fmod", 0) != 0;
    let pair = pair(call)?;
    if let Some(element) = pair.a.element().filter(|element| element.is_float()) {
        if !keeps_sign {
            return call.refused("its inputs are floats, which Mod takes with the attribute fmod alone");
        }
        // Every float type holds the remainder exactly.
        alike(call, pair.a, pair.b)?;
        let all = pair
            .both
            .map(&pair.a.data().to_f64(), &pair.b.data().to_f64(), |x, y| x % y);
        return one(HostTensor::new(pair.both.shape(), Data::from(all).cast(element))?);
    }
    divisible(call)?;
    each_integer!(pair.a.data(), a => {
        let b = same(call, a, pair.b.data())?;
        let all = pair.both.map(a, b, |x, y| integer_rest(*x, *y, keeps_sign));
        one(HostTensor::new(pair.both.shape(), all)?)
    }, else no_type(call, pair.a))
}

fn integer_rest<T: Integer>(x: T, y: T, keeps_sign: bool) -> T {
    let rest = x.rest(y).unwrap_or_default();
    if keeps_sign || rest == T::ZERO || (rest < T::ZERO) == (y < T::ZERO) {
        rest
    } else {
        rest.plus(y)
    }
}
