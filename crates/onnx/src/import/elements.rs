//! Elements by their positions along an axis.

use lessen_base::Result;
use lessen_graph::{Array, DType, Tensor, Type};

use super::Value;
use super::call::{Call, Operators, one};

pub(crate) const OPERATORS: Operators = &[
    ("GatherElements", gather_elements),
    ("ScatterElements", scatter_elements),
];

/// Elements by their positions, computed where both are known.
fn gather_elements(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let (Some(x), Some(ids)) = (call.known(0), call.known(1)) else {
        let axis = call.axis(call.int("axis", 0), call.ty(0)?.rank())?;
        let x = call.tensor(0)?;
        let ids = positions(call, 1, x, axis)?;
        return one(leading(x, ids, axis).take_along(axis as isize, ids));
    };
    let axis = call.axis(call.int("axis", 0), x.ty.rank())?;
    let extent = x.ty.shape[axis] as f64;
    let fits = ids.ty.rank() == x.ty.rank()
        && ids.data.iter().all(|id| (-extent..extent).contains(id))
        && (0..x.ty.rank()).all(|a| a == axis || ids.ty.shape[a] <= x.ty.shape[a]);
    if !fits {
        return call.unknown("an index beyond its axis");
    }
    let array = Array::from_fn(Type::new(x.ty.dtype, &ids.ty.shape), |index| {
        let id = ids.at(index);
        let mut from = index.to_vec();
        from[axis] = (if id < 0.0 { id + extent } else { id }) as usize;
        x.at(&from)
    });
    Ok(vec![Value::known(array)])
}

/// Updates added at positions along an axis.
fn scatter_elements(call: &mut Call<'_>) -> Result<Vec<Value>> {
    if call.text("reduction").as_deref() != Some("add") {
        return call.unknown("elements that are replaced");
    }
    let axis = call.axis(call.int("axis", 0), call.ty(0)?.rank())?;
    let (x, updates) = (call.tensor(0)?, call.tensor(2)?);
    let ids = positions(call, 1, x, axis)?;
    if !x.dtype().is_float() || updates.dtype() != x.dtype() || updates.shape() != ids.shape() {
        return call.unknown("a sum of integers, or of other elements than there are positions,");
    }
    if (0..x.rank()).any(|other| other != axis && ids.dim(other as isize) != x.dim(other as isize)) {
        return call.unknown("a sum in a part of the rows");
    }
    one(x.scatter_add_along(axis as isize, ids, updates))
}

/// The positions of an input along an axis of `x`, negative ones counted from its start.
fn positions(call: &mut Call<'_>, input: usize, x: Tensor, axis: usize) -> Result<Tensor> {
    if call.held.is_some() {
        return call.unknown("positions in a program, which hold fewer numbers than those of files,");
    }
    if !(x.dtype().is_float() || x.dtype() == DType::I32) {
        return call.unknown("elements of truth values and short integers");
    }
    let extent = x.dim(axis as isize) as f64;
    let known = call.known(input).map(|ids| {
        let counted = ids.data.iter().map(|id| if *id < 0.0 { id + extent } else { *id });
        Array::new(ids.ty.clone(), counted.collect())
    });
    let ids = match known {
        Some(ids) if ids.data.iter().any(|id| !(0.0..extent).contains(id)) => {
            return call.unknown("an index beyond its axis");
        }
        Some(ids) => call.constant(ids),
        None => {
            let ids = call.tensor(input)?;
            ids.lt(ids.scalar_like(0.0)).select(ids + extent, ids)
        }
    };
    let fits = ids.dtype() == DType::I32
        && ids.rank() == x.rank()
        && (0..x.rank()).all(|other| other == axis || ids.dim(other as isize) <= x.dim(other as isize));
    if !fits {
        return call.unknown("positions of other extents");
    }
    Ok(ids)
}

/// The part of `x` that has the extents of the ids, but along an axis.
fn leading(x: Tensor, ids: Tensor, axis: usize) -> Tensor {
    let shape = ids.shape();
    let others = (0..shape.len()).filter(|other| *other != axis && shape[*other] != x.dim(*other as isize));
    others.fold(x, |x, other| x.slice(other as isize, 0, shape[other]))
}
