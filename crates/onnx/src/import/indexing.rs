//! Constants, shapes, and elements by their positions.

use lessen_base::Result;
use lessen_graph::{Array, DType, Type};

use super::Value;
use super::call::{Call, Operators, integers, one};
use super::movement::front;

pub(crate) const OPERATORS: Operators = &[
    ("Constant", constant),
    ("ConstantOfShape", constant_of_shape),
    ("Gather", gather),
    ("GatherND", gather_nd),
    ("OneHot", one_hot),
    ("Range", range),
    ("ScatterND", scatter_nd),
    ("Shape", shape),
    ("Size", size),
    ("Trilu", trilu),
];

/// The numbers of an attribute.
fn constant(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let known = |dtype: DType, shape: &[usize], data: Vec<f64>| {
        let array = Array::new(Type::new(dtype, shape), data);
        Ok(vec![Value::known(array)])
    };
    if let Some((_, array)) = call.stored("value")? {
        return Ok(vec![Value::known(array)]);
    }
    let wide = |numbers: &[i64]| numbers.iter().map(|number| *number as f64).collect::<Vec<f64>>();
    if let Some(attribute) = call.node.attribute("value_int") {
        return known(DType::I32, &[], wide(&[attribute.i]));
    }
    if let Some(attribute) = call.node.attribute("value_ints") {
        return known(DType::I32, &[attribute.ints.len()], wide(&attribute.ints));
    }
    if let Some(attribute) = call.node.attribute("value_float") {
        return known(DType::F32, &[], vec![attribute.f.into()]);
    }
    match call.node.attribute("value_floats") {
        Some(attribute) => {
            let numbers = attribute.floats.iter().map(|number| f64::from(*number)).collect();
            known(DType::F32, &[attribute.floats.len()], numbers)
        }
        None => call.unknown("a constant of this type"),
    }
}

fn constant_of_shape(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let sizes: Option<Vec<usize>> = call.integers(0)?.iter().map(|&n| usize::try_from(n).ok()).collect();
    let (dtype, number) = match call.stored("value")? {
        Some((_, array)) => (array.ty.dtype, array.data.first().copied().unwrap_or(0.0)),
        None => (DType::F32, 0.0),
    };
    match sizes {
        Some(sizes) => one(call.trace.full(dtype, &sizes, number)),
        None => call.unknown("a constant of negative size"),
    }
}

/// The parts of an axis at indices; negative indices count from its end.
fn gather(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x_ty = call.ty(0)?;
    let axis = call.axis(call.int("axis", 0), x_ty.rank())?;
    let extent = x_ty.shape[axis];
    let x = call.tensor(0)?;
    let ids_shape = call.ty(1)?.shape;
    if let Some(ids) = call.known(1).cloned() {
        let at = |id: f64| if id < 0.0 { id + extent as f64 } else { id };
        let positions: Vec<f64> = ids.data.iter().map(|id| at(*id)).collect();
        if positions.iter().any(|at| *at < 0.0 || *at >= extent as f64) {
            return call.unknown("an index beyond its axis");
        }
        let follows = positions.windows(2).all(|pair| pair[1] == pair[0] + 1.0);
        if let (true, Some(first)) = (follows, positions.first()) {
            let part = x.slice(axis as isize, *first as usize, positions.len());
            let mut shape = x_ty.shape.to_vec();
            shape.splice(axis..=axis, ids_shape);
            return one(part.reshape(&shape));
        }
        call.inputs[1] = Some(Value::known(Array::new(ids.ty, positions)));
    }
    let is_held = matches!(call.inputs.get(1), Some(Some(Value::Held(_))));
    let mut ids = call.tensor(1)?;
    if is_held {
        ids = ids.lt(ids.scalar_like(0.0)).select(ids + extent as f64, ids);
    }
    let there = front(x.rank(), axis);
    let rows = if axis == 0 { x } else { x.permute(&there) };
    let found = rows.gather(ids);
    // The axes of the ids come first; they belong where the axis was.
    let (ids, rank) = (ids.rank(), found.rank());
    let order: Vec<usize> = (ids..ids + axis).chain(0..ids).chain(ids + axis..rank).collect();
    one(if axis == 0 { found } else { found.permute(&order) })
}

/// Parts by their positions along the first axes.
fn gather_nd(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x_ty = call.ty(0)?;
    let Some(ids) = call.known(1).cloned() else {
        return call.unknown("parts at positions that are computed");
    };
    let depth = ids.ty.last();
    if call.int("batch_dims", 0) != 0 || ids.ty.rank() == 0 || depth > x_ty.rank() {
        return call.unknown("parts for each position of leading axes");
    }
    let lead = &x_ty.shape[..depth];
    let mut positions = Vec::with_capacity(ids.data.len() / depth.max(1));
    for id in ids.data.chunks(depth.max(1)) {
        let mut at = 0.0;
        for (axis, &i) in id.iter().enumerate() {
            let extent = lead[axis] as f64;
            let i = if i < 0.0 { i + extent } else { i };
            if !(0.0..extent).contains(&i) {
                return call.unknown("an index beyond its axis");
            }
            at = at * extent + i;
        }
        positions.push(at);
    }
    let rest = &x_ty.shape[depth..];
    let flat = [&[lead.iter().product()], rest].concat();
    let lead = &ids.ty.shape[..ids.ty.rank() - 1];
    let at = call.constant(Array::new(Type::new(DType::I32, lead), positions));
    one(call.tensor(0)?.reshape(&flat).gather(at))
}

/// A vector for each position, with one number there and another one elsewhere; negative positions count from its end.
fn one_hot(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let depth = match call.known(1).map(|depth| &depth.data[..]) {
        Some([depth]) if (1.0..f64::from(i32::MAX)).contains(depth) => *depth,
        _ => return call.unknown("a vector of this many numbers"),
    };
    // A session has more than one float as a state.
    let (dtype, numbers) = match call.known(2) {
        Some(numbers) => (numbers.ty.dtype, numbers.data.clone()),
        None => (call.ty(2)?.dtype, call.unchanging(2)?.data().to_f64()),
    };
    let numbers = match numbers[..] {
        [elsewhere, there] if dtype.is_float() && !call.has_narrow_floats() => [there, elsewhere],
        _ => return call.unknown("numbers of vectors that are no floats"),
    };
    let numbers = numbers.map(|x| call.trace.full(dtype, &[], x));
    let ids = call.tensor(0)?;
    if ids.dtype() != DType::I32 {
        return call.unknown("positions that are floats");
    }
    let axis = call.axis(call.int("axis", -1), ids.rank() + 1)?;
    let ids = ids.lt(ids.scalar_like(0.0)).select(ids + depth, ids);
    let all = ids.trace().iota(DType::I32, &[depth as usize], 0);
    let y = ids.unsqueeze(-1).eq(all).select(numbers[0], numbers[1]);
    let mut order: Vec<usize> = (0..y.rank() - 1).collect();
    order.insert(axis, y.rank() - 1);
    one(if axis + 1 == y.rank() { y } else { y.permute(&order) })
}

fn range(call: &mut Call<'_>) -> Result<Vec<Value>> {
    /// More numbers than these are no positions of any use.
    const MOST: f64 = (1 << 24) as f64;
    let number = |call: &Call<'_>, input: usize| call.known(input).and_then(|array| array.data.first().copied());
    let (Some(start), Some(limit), Some(delta)) = (number(call, 0), number(call, 1), number(call, 2)) else {
        return call.unknown("a range that is computed");
    };
    let count = ((limit - start) / delta).ceil().max(0.0);
    if !count.is_finite() || count > MOST {
        return call.unknown("a range of so many numbers");
    }
    let count = count as usize;
    let data = (0..count).map(|i| start + delta * i as f64).collect();
    let dtype = call.ty(0)?.dtype;
    Ok(vec![Value::known(Array::new(Type::new(dtype, &[count]), data))])
}

/// Parts replaced at positions along the first axes, computed where all is known.
fn scatter_nd(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let (Some(x), Some(ids), Some(updates)) = (call.known(0), call.known(1), call.known(2)) else {
        return call.unknown("parts at positions that are computed");
    };
    let depth = ids.ty.last();
    let plain = matches!(call.text("reduction").as_deref(), None | Some("none"));
    if !plain || ids.ty.rank() == 0 || depth > x.ty.rank() {
        return call.unknown("parts that are added");
    }
    let mut result = x.clone();
    let block: usize = x.ty.shape[depth..].iter().product();
    for (i, id) in ids.data.chunks(depth.max(1)).enumerate() {
        let mut at = 0;
        for (axis, &i) in id.iter().enumerate() {
            let extent = x.ty.shape[axis];
            let i = if i < 0.0 { i + extent as f64 } else { i };
            if !(0.0..extent as f64).contains(&i) {
                return call.unknown("an index beyond its axis");
            }
            at = at * extent + i as usize;
        }
        let Some(part) = updates.data.get(i * block..(i + 1) * block) else {
            return call.unknown("fewer parts than positions");
        };
        result.data[at * block..][..block].copy_from_slice(part);
    }
    Ok(vec![Value::known(result)])
}

fn shape(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let extents = call.ty(0)?.shape;
    let rank = extents.len() as i64;
    let at = |axis: i64| (if axis < 0 { axis + rank } else { axis }).clamp(0, rank) as usize;
    let (start, end) = (at(call.int("start", 0)), at(call.int("end", rank)));
    let part = &extents[start.min(end)..end];
    integers(&[part.len()], part.iter().map(|extent| *extent as f64).collect())
}

fn size(call: &mut Call<'_>) -> Result<Vec<Value>> {
    integers(&[], vec![call.ty(0)?.numel() as f64])
}

/// The upper or the lower triangle of matrices; elements outside of it are zero.
fn trilu(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let Some(x) = call.known(0) else {
        return call.unknown("a triangle of what is computed");
    };
    let k = if call.has(1) {
        call.integers(1)?.first().copied().unwrap_or(0)
    } else {
        0
    };
    let (is_upper, rank) = (call.int("upper", 1) != 0, x.ty.rank());
    if rank < 2 {
        return call.unknown("a triangle of a vector");
    }
    let array = Array::from_fn(x.ty.clone(), |index| {
        let beyond = index[rank - 1] as i64 - index[rank - 2] as i64 - k;
        let is_kept = if is_upper { beyond >= 0 } else { beyond <= 0 };
        if is_kept { x.at(index) } else { 0.0 }
    });
    Ok(vec![Value::known(array)])
}
