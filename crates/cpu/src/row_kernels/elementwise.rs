//! Functions of single elements, and what only moves elements.

use lessen_graph::ops::{Binary, Cast, Compare, Concat, Select, Unary};
use lessen_graph::{DType, Op, Type};

use super::{RowKernel, rows};
use crate::kernels::{cast, elementwise};

/// The kernel for these dtypes, if the operation is of this kind and there is one.
pub(super) fn kernel(op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Option<RowKernel> {
    let any = op;
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
    if any.is::<Concat>() {
        let size = outputs[0].dtype.bytes();
        return Some(Box::new(move |r| {
            let mut to = r.outputs[0];
            for &from in r.inputs {
                let (n, c) = (r.n, from.columns);
                // The unsigned integer of the same size stands for any dtype.
                unsafe {
                    match size {
                        8 => elementwise::copy::<u64>(n, c, rows(from), rows(to)),
                        4 => elementwise::copy::<u32>(n, c, rows(from), rows(to)),
                        2 => elementwise::copy::<u16>(n, c, rows(from), rows(to)),
                        _ => elementwise::copy::<u8>(n, c, rows(from), rows(to)),
                    }
                }
                to.ptr = to.ptr.wrapping_add(c * size);
            }
        }));
    }
    None
}
