//! Powers, whose bases and exponents may have different types.

use std::borrow::Cow;

use lessen_base::Result;

use super::operands::{has_zero, no_type, pair};
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Number, each_integer, one};

pub(crate) const OPERATORS: HostOperators = &[("", "Pow", power)];

/// A power, in the type of the base.
fn power(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let pair = pair(call)?;
    let both = &pair.both;
    let is_whole = each_integer!(pair.b.data(), _v => true, else false);
    let element = pair.a.element();
    // Floats are computed in double precision and rounded once.
    let bases = match element {
        Some(element) if element.is_float() => Cow::Owned(Data::F64(pair.a.data().to_f64())),
        _ => Cow::Borrowed(pair.a.data()),
    };
    let all: Data = if is_whole {
        let exponents = pair.b.integers().unwrap_or_default();
        if matches!(pair.b.data(), Data::U64(all) if all.iter().any(|x| i64::try_from(*x).is_err())) {
            return call.refused("it has an exponent beyond 2^63");
        }
        if has_pole(pair.a.data(), &exponents) {
            return call.refused("it has a negative exponent and the integer zero as a base");
        }
        match &*bases {
            Data::F64(a) => both.map(a, &exponents, |x, n| whole_power(*x, *n)).into(),
            integers => each_integer!(integers, a => both.map(a, &exponents, |x, n| whole_power(*x, *n)).into(),
                else return no_type(call, pair.a)),
        }
    } else {
        if !pair.b.element().is_some_and(Element::is_float) {
            return no_type(call, pair.b);
        }
        let exponents = pair.b.data().to_f64();
        match &*bases {
            Data::F64(a) => both.map(a, &exponents, |x, y| real_power(*x, *y)).into(),
            integers => each_integer!(integers, a => both.map(a, &exponents, |x, y| real_power(*x, *y)).into(),
                else return no_type(call, pair.a)),
        }
    };
    let all = match element {
        Some(element) if element.is_float() => all.cast(element),
        _ => all,
    };
    one(HostTensor::new(both.shape(), all)?)
}

/// Whether integers among which is zero may meet a negative exponent.
fn has_pole(bases: &Data, exponents: &[i64]) -> bool {
    each_integer!(bases, v => has_zero(v), else false) && exponents.iter().any(|n| *n < 0)
}

/// The power of a whole exponent: integers wrap, and what is below one is cut off.
fn whole_power<T: Number>(x: T, n: i64) -> T {
    if T::IS_FLOAT {
        let x = x.to_f64();
        if n == 2 {
            return T::of_f64(x * x);
        }
        // The exponent's parity is asked before it is rounded.
        let magnitude = x.abs().powf(n as f64);
        return T::of_f64(if x.is_sign_negative() && n % 2 != 0 {
            -magnitude
        } else {
            magnitude
        });
    }
    if n < 0 {
        let is_unit = x == T::ONE || x.plus(T::ONE) == T::ZERO && x < T::ZERO;
        return match (is_unit, n % 2 == 0) {
            (true, true) => T::ONE,
            (true, false) => x,
            (false, _) => T::ZERO,
        };
    }
    let (mut power, mut square, mut left) = (T::ONE, x, n);
    while left > 0 {
        if left % 2 == 1 {
            power = power.times(square);
        }
        square = square.times(square);
        left /= 2;
    }
    power
}

/// The power of a real exponent; of an integer the fraction is cut off.
fn real_power<T: Number>(x: T, y: f64) -> T {
    let is_whole = y.trunc() == y && y.abs() < 9e18;
    if is_whole && !(y < 0.0 && x == T::ZERO) {
        whole_power(x, y as i64)
    } else {
        T::cut(x.to_f64().powf(y))
    }
}
