//! Sums, means and extrema over axes, and softmax.

use lessen_base::Result;
use lessen_graph::{DType, Tensor};

use super::Value;
use super::call::{Call, Operators, one};
use super::layout::image_of;

pub(crate) const OPERATORS: Operators = &[
    ("LogSoftmax", |call| along(call, Tensor::log_softmax)),
    ("ReduceL1", |call| reduced(call, |x, axes| sums(x.abs(), axes))),
    ("ReduceL2", |call| reduced(call, |x, axes| sums(x * x, axes).sqrt())),
    ("ReduceLogSum", |call| reduced(call, |x, axes| sums(x, axes).log())),
    ("ReduceMax", |call| reduced(call, |x, axes| x.max_axes(axes))),
    ("ReduceMean", |call| reduced(call, |x, axes| x.mean_axes(axes))),
    ("ReduceMin", |call| reduced(call, |x, axes| x.min_axes(axes))),
    ("ReduceSum", |call| reduced(call, sums)),
    ("ReduceSumSquare", |call| reduced(call, |x, axes| sums(x * x, axes))),
    ("Softmax", softmax),
];

/// The numbers of a short row: the parts of a complex number.
const SHORT: usize = 2;

/// Sums over axes; those of short rows are sums of columns.
fn sums(x: Tensor, axes: &[usize]) -> Tensor {
    let (last, width) = (x.rank().saturating_sub(1), x.ty().last());
    if axes != [last] || width != SHORT {
        return x.sum_axes(axes);
    }
    let shape = x.shape();
    let columns = (0..width).map(|i| x.slice(-1, i, 1).reshape(&shape[..last]));
    columns.reduce(|sum, column| sum + column).unwrap_or(x)
}

/// A reduction over axes, which are kept with an extent of 1 unless the node says otherwise.
fn reduced(call: &mut Call<'_>, f: impl Fn(Tensor, &[usize]) -> Tensor) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let given = call.integers_of("axes", 1)?.filter(|axes| !axes.is_empty());
    let axes = match given {
        Some(axes) => call.axes(&axes, x.rank())?,
        None if call.int("noop_with_empty_axes", 0) != 0 => return one(x),
        None => (0..x.rank()).collect(),
    };
    let dtype = x.dtype();
    // Without the channels, or with them alone, an image has the same order of axes here and in the file.
    let is_same = axes.contains(&1) || (x.rank() > 2 && (2..x.rank()).all(|axis| axes.contains(&axis)));
    let (image, own) = match image_of(x).filter(|_| is_same) {
        Some(image) => {
            let mut own: Vec<usize> = axes.iter().map(|axis| image.axis(*axis)).collect();
            if x.rank() == 3 {
                own.push(1);
            }
            own.sort_unstable();
            (image.tensor, own)
        }
        None => (x, axes.clone()),
    };
    let wide = if dtype.is_float() {
        image
    } else {
        image.cast(DType::F64)
    };
    let mut y = f(wide, &own).cast(dtype);
    if call.int("keepdims", 1) != 0 {
        let mut shape = x.shape();
        axes.iter().for_each(|axis| shape[*axis] = 1);
        y = y.reshape(&shape);
    }
    one(y)
}

/// Softmax as ONNX defines it where a file is run: NaN for a row of nothing but minus infinity, of which the operation
/// of graphs makes zeros.
fn softmax(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let runs = call.held.is_some();
    along(call, |x| match runs {
        true => x.softmax() + x.max_last() * 0.0,
        false => x.softmax(),
    })
}

/// A function of rows along an axis. Before version 13 of the operators the axes from that one on are one row.
fn along(call: &mut Call<'_>, f: impl Fn(Tensor) -> Tensor) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let is_old = call.opset < 13;
    let axis = call.axis(call.int("axis", if is_old { 1 } else { -1 }), x.rank())?;
    let last = x.rank() - 1;
    if axis == last {
        return one(f(x));
    }
    if let (Some(image), 1, false) = (image_of(x), axis, is_old) {
        return one(image.map(f));
    }
    if is_old {
        let shape = x.shape();
        let rows = shape[..axis].iter().product();
        let columns = shape[axis..].iter().product();
        return one(f(x.reshape(&[rows, columns])).reshape(&shape));
    }
    one(f(x.transpose(axis as isize, -1)).transpose(axis as isize, -1))
}
