//! Comparisons, and functions of truth values.

use lessen_base::Result;

use super::operands::{Pair, alike, no_type, pair, same};
use lessen_onnx::Element;
use lessen_onnx::host::{Cell, Cells, Data, HostCall, HostOperators, HostTensor, HostValue, each_wide, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "And", |call| truth(call, |x, y| x & y)),
    ("", "Equal", equal),
    ("", "Greater", |call| compared(call, false, false)),
    ("", "GreaterOrEqual", |call| compared(call, false, true)),
    ("", "Less", |call| compared(call, true, false)),
    ("", "LessOrEqual", |call| compared(call, true, true)),
    ("", "Not", not),
    ("", "Or", |call| truth(call, |x, y| x | y)),
    ("", "Xor", |call| truth(call, |x, y| x ^ y)),
];

fn equal(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let pair = pair(call)?;
    alike(call, pair.a, pair.b)?;
    let (a, b) = (pair.a.data(), pair.b.data());
    let is_exact = pair
        .a
        .element()
        .is_none_or(|element| !matches!(element, Element::Narrow(_)) && !element.is_float());
    let all = match (a, b) {
        // Integers, truth values and texts are equal where their cells are.
        _ if is_exact => match Cells::of(a) {
            Cells::One(a, _) => equal_cells(&pair, a),
            Cells::Two(a, _) => equal_cells(&pair, a),
            Cells::Four(a, _) => equal_cells(&pair, a),
            Cells::Eight(a, _) => equal_cells(&pair, a),
            Cells::Texts(a, _) => equal_cells(&pair, a),
        },
        (Data::F32(a), Data::F32(b)) => pair.both.map(a, b, |x, y| x == y),
        _ => pair.both.map(&a.to_f64(), &b.to_f64(), |x, y| x == y),
    };
    one(HostTensor::new(pair.both.shape(), all)?)
}

fn equal_cells<T: Cell + PartialEq>(pair: &Pair<'_>, a: &[T]) -> Vec<bool> {
    let b = T::of(pair.b.data()).unwrap_or_default();
    pair.both.map(a, b, |x, y| x == y)
}

/// Whether numbers are less or greater than others, or equal to them.
fn compared(call: &HostCall<'_>, is_less: bool, or_equal: bool) -> Result<Vec<HostValue>> {
    let pair = pair(call)?;
    let [a, b] = pair.numbers(call)?;
    let all = each_wide!(&*a, a => {
        pair.both.map(a, same(call, a, &b)?, |x, y| {
            let (low, high) = if is_less { (x, y) } else { (y, x) };
            low < high || (or_equal && low == high)
        })
    }, else return no_type(call, pair.a));
    one(HostTensor::new(pair.both.shape(), all)?)
}

fn truth(call: &HostCall<'_>, f: impl Fn(bool, bool) -> bool) -> Result<Vec<HostValue>> {
    let pair = pair(call)?;
    let Data::Bool(a) = pair.a.data() else {
        return no_type(call, pair.a);
    };
    let all = pair.both.map(a, same(call, a, pair.b.data())?, |x, y| f(*x, *y));
    one(HostTensor::new(pair.both.shape(), all)?)
}

fn not(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    match tensor.data() {
        Data::Bool(all) => one(HostTensor::new(
            tensor.shape(),
            all.iter().map(|x| !x).collect::<Vec<bool>>(),
        )?),
        _ => no_type(call, tensor),
    }
}
