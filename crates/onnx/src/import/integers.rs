//! Functions of numbers that often follow from sizes and constants, such as positions of tokens.

use lessen_base::Result;
use lessen_graph::ops::{Cumulate, CumulateKind};
use lessen_graph::{Array, DType};

use super::Value;
use super::call::{Call, Operators, one};

pub(crate) const OPERATORS: Operators = &[("CumSum", sums_so_far), ("Mod", remainder)];

/// The sums of the elements up to each one along an axis.
fn sums_so_far(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let Some(axis) = call.known(1).and_then(|axis| axis.data.first().copied()) else {
        return call.unknown("a sum so far along an axis that is computed");
    };
    let axis = call.axis(axis as i64, call.ty(0)?.rank())?;
    let (excludes_own, is_backward) = (call.int("exclusive", 0) != 0, call.int("reverse", 0) != 0);
    let Some(x) = call.known(0) else {
        let x = call.tensor(0)?;
        let is_number = x.dtype().is_float() || (x.dtype() == DType::I32 && call.held.is_none());
        if !is_number {
            return call.unknown("a sum so far of these integers");
        }
        let op = Cumulate {
            kind: CumulateKind::Sum,
            exclusive: excludes_own,
            reverse: is_backward,
        };
        return one(x.cumulate(op, axis as isize));
    };
    let (extent, inner) = (x.ty.shape[axis], x.ty.shape[axis + 1..].iter().product::<usize>());
    let mut data = x.data.clone();
    for start in (0..data.len()).filter(|i| i / inner.max(1) % extent.max(1) == 0) {
        let mut sum = 0.0;
        for step in 0..extent {
            let at = start + inner * if is_backward { extent - 1 - step } else { step };
            let own = data[at];
            data[at] = if excludes_own { sum } else { sum + own };
            sum += own;
        }
    }
    Ok(vec![Value::known(Array::new(x.ty.clone(), data))])
}

/// The remainder of a division: of the divisor's sign or, by the attribute `fmod`, of the dividend's.
fn remainder(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let (Some(a), Some(b)) = (call.known(0), call.known(1)) else {
        return call.unknown("a remainder of what is computed");
    };
    if b.data.len() != 1 || b.ty.rank() > a.ty.rank() {
        return call.unknown("remainders by several numbers");
    }
    let (by, keeps_sign) = (b.data[0], call.int("fmod", 0) != 0);
    if by == 0.0 && !a.ty.dtype.is_float() {
        return call.unknown("a remainder by zero");
    }
    let of = |a: &f64| match a % by {
        rest if keeps_sign || rest == 0.0 || (rest < 0.0) == (by < 0.0) => rest,
        rest => rest + by,
    };
    let data = a.data.iter().map(of).collect();
    Ok(vec![Value::known(Array::new(a.ty.clone(), data))])
}
