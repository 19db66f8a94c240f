//! Sums, means and extrema over axes, and softmax.

use lessen_base::Result;
use lessen_graph::{DType, Tensor};

use super::Value;
use super::call::{Call, Operators, one};

pub(crate) const OPERATORS: Operators = &[
    ("LogSoftmax", |call| along(call, Tensor::log_softmax)),
    ("ReduceL1", |call| reduced(call, |x, axes| x.abs().sum_axes(axes))),
    ("ReduceL2", |call| {
        reduced(call, |x, axes| (x * x).sum_axes(axes).sqrt())
    }),
    ("ReduceLogSum", |call| reduced(call, |x, axes| x.sum_axes(axes).log())),
    ("ReduceMax", |call| reduced(call, |x, axes| x.max_axes(axes))),
    ("ReduceMean", |call| reduced(call, |x, axes| x.mean_axes(axes))),
    ("ReduceMin", |call| reduced(call, |x, axes| x.min_axes(axes))),
    ("ReduceSum", |call| reduced(call, |x, axes| x.sum_axes(axes))),
    ("ReduceSumSquare", |call| {
        reduced(call, |x, axes| (x * x).sum_axes(axes))
    }),
    ("Softmax", |call| along(call, Tensor::softmax)),
];

/// A reduction over axes, which are kept with an extent of 1 unless the node says otherwise.
fn reduced<'g>(call: &mut Call<'_, 'g>, f: impl Fn(Tensor<'g>, &[usize]) -> Tensor<'g>) -> Result<Vec<Value<'g>>> {
    let x = call.tensor(0)?;
    let given = call.integers_of("axes", 1)?.filter(|axes| !axes.is_empty());
    let axes = match given {
        Some(axes) => call.axes(&axes, x.rank())?,
        None if call.int("noop_with_empty_axes", 0) != 0 => return one(x),
        None => (0..x.rank()).collect(),
    };
    let dtype = x.dtype();
    let wide = if dtype.is_float() { x } else { x.cast(DType::F64) };
    let mut y = f(wide, &axes).cast(dtype);
    if call.int("keepdims", 1) != 0 {
        let mut shape = x.shape();
        axes.iter().for_each(|axis| shape[*axis] = 1);
        y = y.reshape(&shape);
    }
    one(y)
}

/// A function of rows along an axis. Before version 13 of the operators the axes from that one on are one row.
fn along<'g>(call: &mut Call<'_, 'g>, f: impl Fn(Tensor<'g>) -> Tensor<'g>) -> Result<Vec<Value<'g>>> {
    let x = call.tensor(0)?;
    let is_old = call.opset < 13;
    let axis = call.axis(call.int("axis", if is_old { 1 } else { -1 }), x.rank())?;
    let last = x.rank() - 1;
    if axis == last {
        return one(f(x));
    }
    if is_old {
        let shape = x.shape();
        let rows = shape[..axis].iter().product();
        let columns = shape[axis..].iter().product();
        return one(f(x.reshape(&[rows, columns])).reshape(&shape));
    }
    one(f(x.transpose(axis as isize, -1)).transpose(axis as isize, -1))
}
