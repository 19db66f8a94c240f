//! Comparisons, and functions of truth values.

use lessen_base::Result;

use super::operands::{binary, no_type, pair, same};
use crate::host::{Data, HostCall, HostOperators, HostTensor, HostValue, each_type, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "And", |call| truth(call, |x, y| x & y)),
    ("", "Equal", equal),
    ("", "Greater", |call| binary!(call, each_number, |x, y| x > y)),
    ("", "GreaterOrEqual", |call| binary!(call, each_number, |x, y| x >= y)),
    ("", "Less", |call| binary!(call, each_number, |x, y| x < y)),
    ("", "LessOrEqual", |call| binary!(call, each_number, |x, y| x <= y)),
    ("", "Not", not),
    ("", "Or", |call| truth(call, |x, y| x | y)),
    ("", "Xor", |call| truth(call, |x, y| x ^ y)),
];

fn equal(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let pair = pair(call)?;
    let all = each_type!(pair.a.data(), a => pair.both.map(a, same(call, a, pair.b)?, |x, y| x == y));
    one(HostTensor::new(pair.both.shape(), all)?)
}

fn truth(call: &HostCall<'_>, f: impl Fn(bool, bool) -> bool) -> Result<Vec<HostValue>> {
    let pair = pair(call)?;
    let Data::Bool(a) = pair.a.data() else {
        return no_type(call, pair.a);
    };
    let all = pair.both.map(a, same(call, a, pair.b)?, |x, y| f(*x, *y));
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
