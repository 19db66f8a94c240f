//! Which kernel runs an operation on a block of rows, if one does.

use lessen_graph::ops::{
    AdamW, Binary, Cast, Compare, Concat, CrossEntropy, CrossEntropyBackward, Dropout, Elu, Gather, Gelu,
    GeluBackward, Identity, LayerNorm, LayerNormBackward, LogSoftmax, MatMul, Reduce, Relu, RmsNorm,
    RmsNormBackward, Select, Sgd, Silu, Softmax, SoftmaxBackward, Unary,
};
use lessen_graph::{DType, Op, RowWise, Type};

use crate::faults::Faults;
use crate::kernels::{
    Rows, activation, cast, cross_entropy, elementwise, gather, gemm, norm, optimizer, random, reduce,
    softmax,
};
use crate::operand::Arg;

/// A run of rows that one call works on.
pub(crate) struct Run<'a> {
    /// Rows.
    pub(crate) n: usize,
    /// The first row, counted in the whole value.
    pub(crate) first: usize,
    pub(crate) inputs: &'a [Arg],
    /// Rows to write; for a sum over rows the memory to add to.
    pub(crate) outputs: &'a [Arg],
    pub(crate) faults: &'a Faults,
}

impl Run<'_> {
    fn x(&self, i: usize) -> Rows<f32> {
        rows(self.inputs[i])
    }

    fn y(&self, i: usize) -> Rows<f32> {
        rows(self.outputs[i])
    }

    /// An input that is read whole.
    fn whole(&self, i: usize) -> *const f32 {
        self.inputs[i].ptr.cast()
    }

    /// An output with one element for each row.
    fn column(&self, i: usize) -> *mut f32 {
        self.outputs[i].ptr.cast()
    }

    fn scalar(&self, i: usize) -> f32 {
        // SAFETY: a scalar input has one element.
        unsafe { *self.whole(i) }
    }

    /// Integer inputs of one element a row; the schedule only admits dense ones here.
    fn indices(&self, i: usize) -> &[i32] {
        let arg = self.inputs[i];
        // SAFETY: the plan gives `n` rows of `columns` dense elements.
        unsafe { std::slice::from_raw_parts(arg.ptr.cast(), self.n * arg.columns) }
    }
}

fn rows<T>(arg: Arg) -> Rows<T> {
    Rows {
        ptr: arg.ptr.cast(),
        row: arg.row,
        col: arg.col,
    }
}

/// A kernel bound to an operation's attributes.
pub(crate) type RowKernel = Box<dyn Fn(&Run<'_>) + Send + Sync>;

/// The most operands of a node in a group.
pub(crate) const MAX_OPERANDS: usize = 12;

/// The kernel for an operation on these types, if there is one that runs row by row.
///
/// The kernels are `unsafe`; each call is sound for the same reason: the plan gives every operand `n` rows of as many
/// columns as its type has, outputs overlap inputs only where [`Op::in_place`] allows it, and tasks write disjoint
/// rows.
pub(crate) fn row_kernel(op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Option<RowKernel> {
    if op.row_wise(inputs, outputs) == RowWise::No || inputs.len() + outputs.len() > MAX_OPERANDS {
        return None;
    }
    let all_f32 = inputs
        .iter()
        .chain(outputs)
        .filter(|t| t.dtype.is_float())
        .all(|t| t.dtype == DType::F32);
    elementwise_kernel(op, inputs, outputs)
        .or_else(|| {
            if all_f32 {
                f32_kernel(op, inputs, outputs)
            } else {
                None
            }
        })
        .or_else(|| copying_kernel(op, outputs))
}

fn elementwise_kernel(op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Option<RowKernel> {
    let any = op.as_any();
    let dtype = inputs.first()?.dtype;
    // SAFETY (of all kernels here): see `row_kernel`.
    if let (Some(&Unary { kind }), DType::F32) = (any.downcast_ref(), dtype) {
        return Some(Box::new(move |r| unsafe {
            elementwise::unary(kind, r.n, r.outputs[0].columns, r.x(0), r.y(0));
        }));
    }
    if let Some(&Binary { kind }) = any.downcast_ref() {
        return match dtype {
            DType::F32 => Some(Box::new(move |r| unsafe {
                elementwise::binary(kind, r.n, r.outputs[0].columns, r.x(0), r.x(1), r.y(0));
            })),
            DType::I32 => Some(Box::new(move |r| unsafe {
                let (a, b, y) = (rows(r.inputs[0]), rows(r.inputs[1]), rows(r.outputs[0]));
                elementwise::binary_i32(kind, r.n, r.outputs[0].columns, a, b, y);
            })),
            _ => None,
        };
    }
    if let Some(&Compare { kind }) = any.downcast_ref() {
        macro_rules! compare {
            ($t:ty) => {
                Some(Box::new(move |r| unsafe {
                    let (a, b, y) = (
                        rows::<$t>(r.inputs[0]),
                        rows(r.inputs[1]),
                        rows(r.outputs[0]),
                    );
                    elementwise::compare(kind, r.n, r.outputs[0].columns, a, b, y);
                }))
            };
        }
        return match dtype {
            DType::F32 => compare!(f32),
            DType::I32 => compare!(i32),
            DType::U32 => compare!(u32),
            DType::Bool => compare!(u8),
            _ => None,
        };
    }
    if any.is::<Select>() {
        macro_rules! select {
            ($t:ty) => {
                Some(Box::new(move |r| unsafe {
                    let cond = rows(r.inputs[0]);
                    let (a, b, y) = (
                        rows::<$t>(r.inputs[1]),
                        rows(r.inputs[2]),
                        rows(r.outputs[0]),
                    );
                    elementwise::select(r.n, r.outputs[0].columns, cond, a, b, y);
                }))
            };
        }
        return match outputs[0].dtype.bytes() {
            4 => select!(u32),
            2 => select!(u16),
            1 => select!(u8),
            _ => select!(u64),
        };
    }
    if any.is::<Cast>() {
        let to = outputs[0].dtype;
        return Some(Box::new(move |r| unsafe {
            cast::cast(
                dtype,
                to,
                r.n,
                r.outputs[0].columns,
                rows(r.inputs[0]),
                rows(r.outputs[0]),
            );
        }));
    }
    None
}

/// Operations that move elements of any dtype.
fn copying_kernel(op: &dyn Op, outputs: &[Type]) -> Option<RowKernel> {
    let any = op.as_any();
    let size = outputs[0].dtype.bytes();
    // SAFETY: as above; the unsigned integer of the same size stands for any dtype.
    let copy = move |n, c, x: Arg, y: Arg| unsafe {
        match size {
            8 => elementwise::copy::<u64>(n, c, rows(x), rows(y)),
            4 => elementwise::copy::<u32>(n, c, rows(x), rows(y)),
            2 => elementwise::copy::<u16>(n, c, rows(x), rows(y)),
            _ => elementwise::copy::<u8>(n, c, rows(x), rows(y)),
        }
    };
    if any.is::<Identity>() {
        return Some(Box::new(move |r| {
            copy(r.n, r.outputs[0].columns, r.inputs[0], r.outputs[0])
        }));
    }
    if any.is::<Concat>() {
        return Some(Box::new(move |r| {
            let mut to = r.outputs[0];
            for &from in r.inputs {
                copy(r.n, from.columns, from, to);
                to.ptr = to.ptr.wrapping_add(from.columns * size);
            }
        }));
    }
    None
}

fn f32_kernel(op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Option<RowKernel> {
    let any = op.as_any();
    let last = inputs.first()?.last();
    // SAFETY (of all kernels here): see `row_kernel`.
    if let Some(&Gelu { tanh }) = any.downcast_ref() {
        return Some(Box::new(move |r| unsafe {
            activation::gelu(tanh, r.n, r.outputs[0].columns, r.x(0), r.y(0));
        }));
    }
    if let Some(&GeluBackward { tanh }) = any.downcast_ref() {
        return Some(Box::new(move |r| unsafe {
            activation::gelu_backward(tanh, r.n, r.outputs[0].columns, r.x(0), r.x(1), r.y(0));
        }));
    }
    if any.is::<Relu>() {
        return Some(Box::new(|r| unsafe {
            activation::relu(r.n, r.outputs[0].columns, r.x(0), r.y(0))
        }));
    }
    if let Some(&Elu { alpha }) = any.downcast_ref() {
        return Some(Box::new(move |r| unsafe {
            activation::elu(alpha as f32, r.n, r.outputs[0].columns, r.x(0), r.y(0));
        }));
    }
    if any.is::<Silu>() {
        return Some(Box::new(|r| unsafe {
            activation::silu(r.n, r.outputs[0].columns, r.x(0), r.y(0))
        }));
    }
    if let Some(&Dropout { p, stream }) = any.downcast_ref() {
        return Some(Box::new(move |r| unsafe {
            let c = r.outputs[0].columns;
            let key: [u32; 2] = *r.inputs[1].ptr.cast();
            random::dropout(p, stream, key, (r.first * c) as u64, r.n, c, r.x(0), r.y(0));
        }));
    }
    if let Some(&AdamW {
        beta1,
        beta2,
        eps,
        weight_decay,
    }) = any.downcast_ref()
    {
        let constants = optimizer::AdamW {
            beta1,
            beta2,
            eps,
            weight_decay,
        };
        return Some(Box::new(move |r| unsafe {
            // The plan gives every operand but the scalars dense rows, so that the run is one stretch.
            let n = r.n * r.outputs[0].columns;
            let (p, g, m, v) = (r.whole(0), r.whole(1), r.whole(2), r.whole(3));
            let (p2, m2, v2) = (r.column(0), r.column(1), r.column(2));
            optimizer::adamw(n, p, g, m, v, p2, m2, v2, r.scalar(4), r.scalar(5), constants);
        }));
    }
    if let Some(&Sgd {
        momentum,
        nesterov,
        weight_decay,
    }) = any.downcast_ref()
    {
        let constants = optimizer::Sgd {
            momentum,
            nesterov,
            weight_decay,
        };
        return Some(Box::new(move |r| unsafe {
            let n = r.n * r.outputs[0].columns;
            let (p, g, buffer) = (r.whole(0), r.whole(1), r.whole(2));
            optimizer::sgd(n, p, g, buffer, r.column(0), r.column(1), r.scalar(3), constants);
        }));
    }
    if let Some(&LayerNorm { eps }) = any.downcast_ref() {
        return Some(Box::new(move |r| unsafe {
            let (gamma, beta) = (r.whole(1), r.whole(2));
            norm::layer_norm(
                r.n,
                last,
                r.x(0),
                gamma,
                beta,
                eps as f32,
                r.y(0),
                r.column(1),
                r.column(2),
            );
        }));
    }
    if any.is::<LayerNormBackward>() {
        return Some(Box::new(move |r| unsafe {
            let (mean, rstd) = (r.whole(2), r.whole(3));
            let (dx, dgamma, dbeta) = (Some(r.y(0)), r.column(1), r.column(2));
            norm::layer_norm_backward(
                r.n,
                last,
                r.x(0),
                r.whole(1),
                mean,
                rstd,
                r.x(4),
                dx,
                dgamma,
                dbeta,
            );
        }));
    }
    if let Some(&RmsNorm { eps }) = any.downcast_ref() {
        return Some(Box::new(move |r| unsafe {
            norm::rms_norm(r.n, last, r.x(0), r.whole(1), eps as f32, r.y(0), r.column(1));
        }));
    }
    if any.is::<RmsNormBackward>() {
        return Some(Box::new(move |r| unsafe {
            norm::rms_norm_backward(
                r.n,
                last,
                r.x(0),
                r.whole(1),
                r.whole(2),
                r.x(3),
                Some(r.y(0)),
                r.column(1),
            );
        }));
    }
    if any.is::<Softmax>() {
        return Some(Box::new(move |r| unsafe {
            softmax::softmax(r.n, last, r.x(0), r.y(0))
        }));
    }
    if any.is::<SoftmaxBackward>() {
        return Some(Box::new(move |r| unsafe {
            softmax::softmax_backward(r.n, last, r.x(0), r.x(1), r.y(0))
        }));
    }
    if any.is::<LogSoftmax>() {
        return Some(Box::new(move |r| unsafe {
            softmax::log_softmax(r.n, last, r.x(0), r.y(0))
        }));
    }
    if let Some(op) = any.downcast_ref::<CrossEntropy>().cloned() {
        let (ignore, smoothing) = (i32::try_from(op.ignore).ok()?, op.smoothing as f32);
        return Some(Box::new(move |r| unsafe {
            let labels = r.indices(1);
            check_labels(r.faults, labels, ignore, last);
            let (loss, lse) = (r.column(0), r.column(1));
            cross_entropy::cross_entropy(r.n, last, r.x(0), labels.as_ptr(), ignore, smoothing, loss, lse);
        }));
    }
    if let Some(op) = any.downcast_ref::<CrossEntropyBackward>().cloned() {
        let (ignore, smoothing) = (i32::try_from(op.ignore).ok()?, op.smoothing as f32);
        return Some(Box::new(move |r| unsafe {
            let (lse, labels, dloss) = (r.whole(1), r.indices(2), r.x(3));
            cross_entropy::cross_entropy_backward(
                r.n,
                last,
                r.x(0),
                lse,
                labels.as_ptr(),
                dloss,
                ignore,
                smoothing,
                r.y(0),
            );
        }));
    }
    if any.is::<Gather>() {
        let limit = inputs[0].shape[0];
        return Some(Box::new(move |r| unsafe {
            let ids = r.indices(1);
            let c = r.outputs[0].columns / r.inputs[1].columns.max(1);
            if r.faults.check(ids, limit) {
                gather::gather(
                    ids.len(),
                    c,
                    r.whole(0),
                    ids.as_ptr(),
                    Rows::dense(r.column(0), c),
                );
            }
        }));
    }
    if let Some(op) = any.downcast_ref::<MatMul>() {
        return linear_kernel(op, inputs, outputs);
    }
    if let Some(op) = any.downcast_ref::<Reduce>() {
        return reduce_kernel(op, inputs, outputs);
    }
    None
}

fn check_labels(faults: &Faults, labels: &[i32], ignore: i32, limit: usize) {
    for &label in labels {
        if label != ignore && label as u32 as usize >= limit {
            faults.out_of_range(label, limit);
        }
    }
}

/// Columns of one tile of a product: narrow tiles of all columns keep more of the shared factor in the cache.
pub(crate) fn column_tile(columns: usize) -> usize {
    if columns <= 768 {
        return columns.max(1);
    }
    let tiles = columns.div_ceil(512);
    columns.div_ceil(tiles).div_ceil(64) * 64
}

fn linear_kernel(op: &MatMul, inputs: &[Type], outputs: &[Type]) -> Option<RowKernel> {
    if !op.is_linear(&inputs[0], &inputs[1]) {
        return None;
    }
    let (_, k, columns) = op.sizes(&inputs[0], &inputs[1]);
    let transposed = op.transpose_b;
    let tile = column_tile(columns);
    debug_assert_eq!(outputs[0].last(), columns);
    Some(Box::new(move |r| {
        let (a, b, y) = (r.inputs[0], r.inputs[1], r.outputs[0]);
        let (b_row, b_col) = if transposed {
            (b.col, b.row)
        } else {
            (b.row, b.col)
        };
        for j in (0..columns).step_by(tile) {
            let n = tile.min(columns - j);
            // SAFETY: see `row_kernel`; the tile's columns are within those of `b` and `y`.
            unsafe {
                gemm::gemm(
                    r.n,
                    k,
                    n,
                    (a.ptr.cast(), a.row as isize, a.col as isize),
                    (b.ptr.cast::<f32>().add(j * b_col), b_row as isize, b_col as isize),
                    (y.ptr.cast::<f32>().add(j * y.col), y.row as isize, y.col as isize),
                    false,
                );
            }
        }
    }))
}

fn reduce_kernel(op: &Reduce, inputs: &[Type], outputs: &[Type]) -> Option<RowKernel> {
    let kind = op.kind;
    if outputs[0].numel() == 1 && inputs[0].rank() == op.axes.len() {
        return Some(Box::new(|r| unsafe {
            // SAFETY: see `row_kernel`; the sum has one element.
            *r.column(0) += reduce::sum_all(r.n, r.inputs[0].columns, r.x(0));
        }));
    }
    if op.axes.first() == Some(&0) {
        return Some(Box::new(|r| unsafe {
            // SAFETY: see `row_kernel`; the sum has as many elements as a row.
            reduce::sum_cols(r.n, r.inputs[0].columns, r.x(0), r.column(0));
        }));
    }
    // SAFETY: see `row_kernel`.
    Some(Box::new(move |r| unsafe {
        reduce::reduce_rows(kind, r.n, r.inputs[0].columns, r.x(0), r.column(0))
    }))
}
