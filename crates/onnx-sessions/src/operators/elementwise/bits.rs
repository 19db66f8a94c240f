//! Functions of the bits of integers.

use lessen_base::Result;

use super::operands::{binary, no_type, unary};
use lessen_onnx::Element;
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, Integer, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "BitCast", reinterpreted),
    ("", "BitShift", shift),
    ("", "BitwiseAnd", |call| {
        binary!(call, each_integer, |x, y| joined(*x, *y, |x, y| x & y))
    }),
    ("", "BitwiseNot", |call| {
        unary!(call, each_integer, |x| joined(x, x, |x, _| !x))
    }),
    ("", "BitwiseOr", |call| {
        binary!(call, each_integer, |x, y| joined(*x, *y, |x, y| x | y))
    }),
    ("", "BitwiseXor", |call| {
        binary!(call, each_integer, |x, y| joined(*x, *y, |x, y| x ^ y))
    }),
];

fn joined<T: Integer>(x: T, y: T, f: impl Fn(u64, u64) -> u64) -> T {
    T::of_bits(f(x.to_bits(), y.to_bits()))
}

/// Shifted bits; nothing is left of a number that is shifted by all of its bits.
fn shift(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    if !matches!(tensor.element(), Some(Element::Unsigned(_))) {
        return no_type(call, tensor);
    }
    match call.text("direction").as_deref() {
        Some("LEFT") => binary!(call, each_integer, |x, y| shifted(*x, *y, u64::checked_shl)),
        Some("RIGHT") => binary!(call, each_integer, |x, y| shifted(*x, *y, u64::checked_shr)),
        Some(other) => call.refused(format!("its direction {other} is not known")),
        None => call.refused("it has no direction"),
    }
}

fn shifted<T: Integer>(x: T, y: T, f: impl Fn(u64, u32) -> Option<u64>) -> T {
    let by = u32::try_from(y.to_bits()).unwrap_or(u32::MAX);
    T::of_bits(f(x.to_bits(), by).unwrap_or(0))
}

/// The same bits as elements of another type of that size.
fn reinterpreted(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    let to = call.element(call.int("to", 0))?;
    match tensor.element() {
        Some(from) if bits(from) == bits(to) => {
            one(HostTensor::of_bytes(tensor.shape(), to, &tensor.data().to_bytes())?)
        }
        _ => call.refused(format!(
            "{to} has other bits than its elements of the type {}",
            tensor.data().type_name()
        )),
    }
}

/// Bits of an element.
fn bits(element: Element) -> u32 {
    match element {
        Element::Narrow(narrow) => narrow.bits(),
        _ => 8 * element.bytes() as u32,
    }
}
