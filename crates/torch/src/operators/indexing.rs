//! Elements by their positions.

use lessen_base::Result;
use lessen_graph::{DType, Tensor, numel};

use crate::call::{Call, Operators, one, several};
use crate::value::Value;
use crate::window::taken;

pub const OPERATORS: Operators = &[
    ("embedding", embedding),
    ("embedding_bag", embedding_bag),
    ("gather", gather),
    ("index", index),
    ("index_add", index_add),
    ("index_fill", |call| {
        call.lacks("index_fill; use where with a comparison of positions")
    }),
    ("index_put", index_put),
    ("index_select", |call| {
        let (x, ids) = (call.x()?, call.tensor("index")?);
        let axis = call.axis("dim", 0, x.rank())?;
        let ids = from_front(ids, x.shape()[axis]);
        one(x.take(axis as isize, ids.reshape(&[ids.ty().numel()])))
    }),
    ("scatter", scatter),
    ("scatter_add", |call| {
        let (x, ids, source) = (call.x()?, call.tensor("index")?, call.tensor("src")?);
        let axis = call.axis("dim", 0, x.rank())?;
        let source = first(source, &ids.shape()).cast(x.dtype());
        if !same_but(axis, x, ids) {
            return call.lacks("scatter_add of fewer rows than the tensor has");
        }
        one(x.scatter_add_along(axis as isize, from_front(ids, x.shape()[axis]), source))
    }),
    ("take_along_dim", gather),
];

/// The rows of a table; the row `padding_idx` gets no gradient.
fn embedding(call: &mut Call<'_, '_>) -> Result<Value> {
    let (table, ids) = (call.tensor("weight")?, call.tensor("indices")?);
    let padding = call.int("padding_idx", -1)?;
    if call.truth("scale_grad_by_freq") {
        return call.lacks("gradients that are scaled by how often words occur");
    }
    let rows = table.gather(ids);
    if padding < 0 {
        return one(rows);
    }
    let is_padding = ids.eq(ids.scalar_like(padding as f64)).unsqueeze(-1);
    one(is_padding.select(rows.stop_gradient(), rows))
}

/// Sums, means or maxima of the rows of bags, which all have the same number of words.
fn embedding_bag(call: &mut Call<'_, '_>) -> Result<Value> {
    let (table, ids, offsets) = (call.tensor("weight")?, call.tensor("indices")?, call.tensor("offsets")?);
    let (count, words) = (offsets.ty().numel(), ids.ty().numel());
    let each = words.checked_div(count).unwrap_or(0);
    let known = call.known(offsets);
    let is_even = known.is_some_and(|known| {
        known
            .data
            .iter()
            .enumerate()
            .all(|(at, own)| *own == (at * each) as f64)
    });
    if !is_even || each * count != words || call.int("padding_idx", -1)? >= 0 {
        return call.lacks("bags of several lengths or with padding; use nn.Embedding and a mask");
    }
    let mut rows = table.gather(ids.reshape(&[count, each]));
    if let Some(weight) = call.optional("per_sample_weights")? {
        rows = rows * weight.reshape(&[count, each, 1]);
    }
    let y = match call.int("mode", 0)? {
        0 => rows.sum_axes(&[1]),
        1 => rows.mean_axes(&[1]),
        _ => rows.max_axes(&[1]),
    };
    several([y])
}

/// Positions that count from the end where they are negative, as ones that count from the front.
fn from_front(ids: Tensor, extent: usize) -> Tensor {
    let ids = ids.cast(DType::I32);
    ids.lt(ids.scalar_like(0.0)).select(ids + extent as i32, ids)
}

/// The first elements of a tensor along each axis.
fn first(x: Tensor, shape: &[usize]) -> Tensor {
    let own = x.shape();
    let cut = shape.iter().enumerate().filter(|(axis, extent)| **extent < own[*axis]);
    cut.fold(x, |x, (axis, extent)| x.slice(axis as isize, 0, *extent))
}

/// Whether two tensors differ in the extent of an axis alone.
fn same_but(axis: usize, a: Tensor, b: Tensor) -> bool {
    let (a, b) = (a.shape(), b.shape());
    a.len() == b.len() && (0..a.len()).all(|own| own == axis || a[own] == b[own])
}

fn gather(call: &mut Call<'_, '_>) -> Result<Value> {
    let (x, ids) = (
        call.x()?,
        call.tensor(if call.has("index") { "index" } else { "indices" })?,
    );
    let axis = call.axis("dim", 0, x.rank())?;
    let mut shape = ids.shape();
    if shape.len() != x.rank() {
        return call.lacks("gather by positions of another number of axes");
    }
    shape[axis] = x.shape()[axis];
    let (dtype, x) = (x.dtype(), first(x, &shape));
    let x = if dtype.is_float() { x } else { x.cast(DType::I32) };
    one(x.take_along(axis as isize, ids).cast(dtype))
}

/// The tensor with these axes in front, in order.
fn to_front(x: Tensor, axes: &[usize]) -> Tensor {
    let left = (0..x.rank()).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = axes.iter().copied().chain(left).collect();
    if order.windows(2).all(|pair| pair[0] < pair[1]) {
        x
    } else {
        x.permute(&order)
    }
}

/// The first `count` axes of a tensor after the next `place` axes.
fn axes_back(x: Tensor, count: usize, place: usize) -> Tensor {
    if place == 0 || count == 0 {
        return x;
    }
    let order: Vec<usize> = (count..count + place)
        .chain(0..count)
        .chain(count + place..x.rank())
        .collect();
    x.permute(&order)
}

/// Positions along several axes as row numbers of a table.
struct Positions {
    /// The axes, ascending.
    axes: Vec<usize>,
    /// Row numbers in the common shape of the positions.
    rows: Tensor,
}

impl Positions {
    /// Of tensors that are given for some axes.
    fn of(call: &mut Call<'_, '_>, x: Tensor) -> Result<Positions> {
        let Value::List(indices) = call.value("indices") else {
            return call.lacks("an index that is no list");
        };
        let shape = x.shape();
        let (mut axes, mut rows): (Vec<usize>, Option<Tensor>) = (Vec::new(), None);
        for (axis, index) in indices.into_iter().enumerate() {
            let Value::Tensor(ids) = index else { continue };
            if ids.dtype() == DType::Bool {
                return call.lacks(
                    "elements that a mask selects, whose number depends on values; keep all elements and multiply by \
                     the mask, or use where",
                );
            }
            let ids = from_front(ids, shape[axis]);
            axes.push(axis);
            rows = Some(rows.map_or(ids, |rows| rows * shape[axis] as i32 + ids));
        }
        match rows {
            Some(rows) => Ok(Positions { axes, rows }),
            None => call.lacks("an index without positions"),
        }
    }

    /// The table whose rows the positions number.
    fn table(&self, x: Tensor) -> Tensor {
        let front = to_front(x, &self.axes);
        let shape = front.shape();
        let count = self.axes.len();
        front.reshape(&[&[numel(&shape[..count])], &shape[count..]].concat())
    }

    /// Where the axes of the positions are in a result: in place of axes side by side, in front otherwise.
    fn place(&self) -> usize {
        let is_side_by_side = self.axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        if is_side_by_side { self.axes[0] } else { 0 }
    }
}

fn index(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    if let Some(y) = masked_by_known(call, x)? {
        return one(y);
    }
    let positions = Positions::of(call, x)?;
    let (table, rows) = (positions.table(x), positions.rows);
    let shape = [&rows.shape()[..], &table.shape()[1..]].concat();
    let is_whole = rows.ty().numel() == table.shape()[0];
    let known = if is_whole { call.known(rows) } else { None };
    let is_same = known.is_some_and(|known| known.data.iter().enumerate().all(|(at, row)| at as f64 == *row));
    let y = if is_same {
        table.reshape(&shape)
    } else {
        table.take(0, rows.reshape(&[rows.ty().numel()])).reshape(&shape)
    };
    let y = axes_back(y, rows.rank(), positions.place());
    if x.dtype() == DType::Bool && is_same && call.surroundings.masks.parts(x).len() == 1 {
        call.surroundings.masks.changed(y, y, Some);
    }
    one(y)
}

/// The elements that a mask of constants selects, along the first axis.
fn masked_by_known(call: &mut Call<'_, '_>, x: Tensor) -> Result<Option<Tensor>> {
    let Value::List(indices) = call.value("indices") else {
        return Ok(None);
    };
    let [Value::Tensor(mask)] = indices[..] else {
        return Ok(None);
    };
    if mask.dtype() != DType::Bool {
        return Ok(None);
    }
    let Some(known) = call.known(mask) else { return Ok(None) };
    let shape = x.shape();
    let table = x.reshape(&[&[mask.ty().numel()], &shape[mask.rank()..]].concat());
    let rows: Vec<usize> = known
        .data
        .iter()
        .enumerate()
        .filter(|(_, x)| **x != 0.0)
        .map(|(at, _)| at)
        .collect();
    Ok(Some(taken(table, 0, &rows)))
}

/// Adds rows at positions of an axis.
fn index_add(call: &mut Call<'_, '_>) -> Result<Value> {
    let (x, ids, source) = (call.x()?, call.tensor("index")?, call.tensor("source")?);
    let axis = call.axis("dim", 0, x.rank())?;
    let (alpha, extent) = (call.float("alpha", 1.0)?, x.shape()[axis]);
    let rows = to_front(source.cast(x.dtype()), &[axis]);
    let rows = if alpha == 1.0 { rows } else { rows * alpha };
    let sums = rows.scatter_add(from_front(ids, extent), extent);
    one(x + axes_back(sums, 1, axis))
}

/// Adds or replaces elements at positions.
fn index_put(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    if let Value::List(indices) = call.value("indices")
        && let [Value::Tensor(mask)] = indices[..]
        && mask.dtype() == DType::Bool
        && call.tensor("values")?.ty().numel() == 1
        && !call.truth("accumulate")
    {
        let value = call.tensor("values")?.cast(x.dtype()).reshape(&[]);
        let mut shape = mask.shape();
        shape.resize(x.rank(), 1);
        return one(mask.reshape(&shape).select(value, x));
    }
    let positions = Positions::of(call, x)?;
    if positions.place() != 0 || positions.axes[0] != 0 {
        return call.lacks("index_put at positions of other than the first axes");
    }
    let (table, rows) = (positions.table(x), positions.rows);
    let wanted = [&rows.shape()[..], &table.shape()[1..]].concat();
    let values = call.tensor("values")?.cast(x.dtype()).broadcast_to(&wanted);
    let count = table.shape()[0];
    if call.truth("accumulate") {
        return one((table + values.scatter_add(rows, count)).reshape(&x.shape()));
    }
    // Of values for one place PyTorch keeps any one; their mean is taken here.
    let hits = call
        .trace()
        .full(DType::F32, &rows.shape(), 1.0)
        .scatter_add(rows, count);
    let mut shape = vec![1; table.rank()];
    shape[0] = count;
    let hits = hits.reshape(&shape);
    let (dtype, floats) = (
        x.dtype(),
        if x.dtype().is_float() {
            values
        } else {
            values.cast(DType::F32)
        },
    );
    let mean = floats.scatter_add(rows, count) / hits.maximum(hits.scalar_like(1.0)).cast(floats.dtype());
    let is_hit = hits.gt(hits.scalar_like(0.0));
    one(is_hit.select(mean.cast(dtype), table).reshape(&x.shape()))
}

/// Replaces elements at positions of an axis.
fn scatter(call: &mut Call<'_, '_>) -> Result<Value> {
    let (x, ids) = (call.x()?, call.tensor("index")?);
    let axis = call.axis("dim", 0, x.rank())?;
    if !same_but(axis, x, ids) || call.has("reduce") {
        return call.lacks("a scatter of this form");
    }
    let ids = from_front(ids, x.shape()[axis]);
    let zeros = call.trace().full(DType::F32, &x.shape(), 0.0);
    let ones = call.trace().full(DType::F32, &ids.shape(), 1.0);
    let hits = zeros.scatter_add_along(axis as isize, ids, ones);
    let is_hit = hits.gt(hits.scalar_like(0.0));
    let value = match call.value("value").number() {
        Some(number) => x.scalar_like(number),
        None => {
            let name = if call.has("src") { "src" } else { "value" };
            let source = call.tensor(name)?.cast(DType::F32);
            let source = if source.rank() == 0 {
                source.broadcast_to(&ids.shape())
            } else {
                first(source, &ids.shape())
            };
            let sums = zeros.scatter_add_along(axis as isize, ids, source);
            (sums / hits.maximum(hits.scalar_like(1.0))).cast(x.dtype())
        }
    };
    one(is_hit.select(value, x))
}
