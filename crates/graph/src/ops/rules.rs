//! Helpers that type rules, row-wise structures and evaluations of several operations share.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{Fold, Op};
use crate::philox::dropout_threshold;
use crate::types::{DType, Type, numel};

/// Folds a function of constants that every device computes exactly or correctly rounded: evaluates it for one element
/// and rounds to the output's dtype.
pub(crate) fn fold_exactly(op: &dyn Op, known: &[Option<f64>], inputs: &[Type], outputs: &[Type]) -> Fold {
    let Some(known) = known.iter().copied().collect::<Option<Vec<f64>>>() else {
        return Fold::No;
    };
    let scalar = |ty: &Type| Type::new(ty.dtype, &[]);
    let arrays: Vec<Array> = inputs
        .iter()
        .zip(known)
        .map(|(ty, value)| Array::full(scalar(ty), value))
        .collect();
    let arrays: Vec<&Array> = arrays.iter().collect();
    let value = op.eval(&arrays, &[scalar(&outputs[0])])[0].item();
    Fold::Splat(outputs[0].dtype.round(value))
}

/// Checks the number of inputs.
pub(crate) fn arity(inputs: &[Type], n: usize) -> Result<()> {
    if inputs.len() == n {
        Ok(())
    } else {
        Err(Error::user(format!("needs {n} inputs, not {}", inputs.len())))
    }
}

/// Checks that a type is a float.
pub(crate) fn float(ty: &Type) -> Result<()> {
    if ty.dtype.is_float() {
        Ok(())
    } else {
        Err(Error::user(format!("needs a float tensor, not {ty}")))
    }
}

/// Checks that a type is a float or `i32`.
pub(crate) fn number(ty: &Type) -> Result<()> {
    if ty.dtype.is_float() || ty.dtype == DType::I32 {
        Ok(())
    } else {
        Err(Error::user(format!("needs a tensor of floats or i32, not {ty}")))
    }
}

/// Checks that a type has a last axis, whose positions `i32` indices number.
pub(crate) fn indexable_rows(ty: &Type) -> Result<()> {
    if ty.rank() == 0 {
        return Err(Error::user(format!("needs a tensor with an axis, not {ty}")));
    }
    indexable("positions of an axis", ty.last())
}

/// Checks that dropout with this probability keeps some elements.
pub(crate) fn probability(p: f64) -> Result<()> {
    if p >= 0.0 && dropout_threshold(p) < 65536 {
        return Ok(());
    }
    Err(Error::user(format!(
        "the probability {p} of dropout is not at least 0 and below 1"
    )))
}

/// Numbers from 0 on that `i32` indices tell apart.
const INDEX_LIMIT: usize = 1 << 31;

/// Checks that `i32` indices can number `count` things, which `what` names.
pub(crate) fn indexable(what: &str, count: usize) -> Result<()> {
    if count <= INDEX_LIMIT {
        Ok(())
    } else {
        Err(Error::user(format!(
            "i32 indices number at most 2^31 {what}, not {count}"
        )))
    }
}

/// Checks that a type is a key.
pub(crate) fn key(ty: &Type) -> Result<()> {
    if *ty == Type::new(DType::U32, &[2]) {
        Ok(())
    } else {
        Err(Error::user(format!("the key must be u32[2], not {ty}")))
    }
}

/// The key that an array holds.
pub(crate) fn key_of(array: &Array) -> [u32; 2] {
    [array.data[0] as u32, array.data[1] as u32]
}

/// The number of rows along the last axis.
pub(crate) fn rows(ty: &Type) -> usize {
    numel(ty.shape.split_last().map_or(&[], |(_, lead)| lead))
}

/// The products of the extents before and after an axis.
pub(crate) fn around(ty: &Type, axis: usize) -> (usize, usize) {
    (numel(&ty.shape[..axis]), numel(&ty.shape[axis + 1..]))
}

/// Checks that a type is a float with a last axis of at least one element.
pub(crate) fn float_rows(ty: &Type) -> Result<()> {
    float(ty)?;
    if ty.rank() > 0 && ty.last() > 0 {
        Ok(())
    } else {
        Err(Error::user(format!("needs a last axis with elements, not {ty}")))
    }
}

/// The shape without its last axis.
pub(crate) fn lead(ty: &Type) -> &[usize] {
    &ty.shape[..ty.rank() - 1]
}

/// Checks that two types are equal.
pub(crate) fn equal(a: &Type, b: &Type) -> Result<()> {
    if a == b {
        Ok(())
    } else {
        Err(Error::user(format!("{a} and {b} differ")))
    }
}

/// Arrays of the types `types` from their elements.
pub(crate) fn arrays<const N: usize>(types: &[Type], data: [Vec<f64>; N]) -> Vec<Array> {
    let pairs = types.iter().cloned().zip(data);
    pairs.map(|(ty, data)| Array::new(ty, data)).collect()
}

/// Evaluates a function of the elements at the same index of all inputs.
pub(crate) fn map(inputs: &[&Array], output: &Type, f: impl Fn(&[f64]) -> f64) -> Vec<Array> {
    let mut x = vec![0.0; inputs.len()];
    let element = |i| {
        for (x, input) in x.iter_mut().zip(inputs) {
            *x = input.data[i];
        }
        f(&x)
    };
    vec![Array::new(output.clone(), (0..output.numel()).map(element).collect())]
}

/// `log(sum e^x)` of one row; `-inf` if all of it is.
pub(crate) fn log_sum_exp(row: &[f64]) -> f64 {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY {
        // A row without numbers has the sum 0, and NaN stays NaN.
        return max + row.iter().sum::<f64>();
    }
    max + row.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
}
