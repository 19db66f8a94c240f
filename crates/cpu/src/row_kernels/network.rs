//! Activations, norms, losses, dropout, embeddings and updates, in `f32`.

use lessen_graph::ops::{
    AdamW, CrossEntropy, CrossEntropyBackward, Dropout, Elu, Gather, Gelu, GeluBackward, LayerNorm,
    LayerNormBackward, LogSoftmax, MatMul, Reduce, Relu, RmsNorm, RmsNormBackward, Sgd, Silu, Softmax,
    SoftmaxBackward,
};
use lessen_graph::{Op, Type};

use super::RowKernel;
use super::sums::{linear, reduction};
use crate::faults::Faults;
use crate::kernels::{Rows, activation, cross_entropy, gather, norm, optimizer, random, softmax};

/// The kernel of an operation on `f32`, if it is of this kind.
pub(super) fn kernel(op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Option<RowKernel> {
    let any = op;
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
    // Rows are copied as numbers of 4 bytes, whatever these stand for.
    if any.is::<Gather>() && outputs[0].dtype.bytes() == size_of::<f32>() {
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
        return linear(op, inputs, outputs);
    }
    if let Some(op) = any.downcast_ref::<Reduce>() {
        return reduction(op, inputs, outputs);
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
