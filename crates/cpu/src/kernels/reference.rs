//! The fallback: an operation without a kernel for its dtypes runs its reference evaluation. It allocates and is
//! slow, but it is right for every operation and every dtype.

use std::sync::Arc;

use lessen_graph::ops::{CrossEntropy, CrossEntropyBackward, Gather, ScatterAdd};
use lessen_graph::{Array, DType, Op, Type};

use crate::single_kernels::{Single, TaskFn};

/// One task that evaluates the operation in `f64`.
pub(crate) fn reference(
    op: Arc<dyn Op>,
    inputs: &[Type],
    strides: &[Vec<usize>],
    outputs: &[Type],
) -> Single {
    let (inputs, strides, outputs) = (inputs.to_vec(), strides.to_vec(), outputs.to_vec());
    let run: TaskFn = Box::new(move |w, _| {
        let arrays: Vec<Array> = inputs
            .iter()
            .zip(&strides)
            .zip(w.inputs)
            .map(|((ty, strides), &from)| {
                Array::from_fn(ty.clone(), |index| {
                    let at: usize = index.iter().zip(strides).map(|(i, s)| i * s).sum();
                    // SAFETY: the plan gives the input the elements of its type at these strides.
                    unsafe { decode(from.add(at * ty.dtype.bytes()), ty.dtype) }
                })
            })
            .collect();
        if let Some((indices, limit, ignored)) = indices_of(op.as_ref(), &inputs) {
            let outside = |&i: &f64| i != ignored && !(0.0..limit as f64).contains(&i);
            if let Some(&index) = arrays[indices].data.iter().find(|i| outside(i)) {
                return w.faults.out_of_range(index as i32, limit);
            }
        }
        let results = evaluated(op.as_ref(), &arrays.iter().collect::<Vec<_>>(), &outputs);
        for ((array, ty), &to) in results.iter().zip(&outputs).zip(w.outputs) {
            let size = ty.dtype.bytes();
            for (i, &value) in array.data.iter().enumerate() {
                let bytes = encode(value, ty.dtype);
                // SAFETY: the plan gives the output a dense array of its type, which the result has been checked to
                // be.
                unsafe { to.add(i * size).copy_from_nonoverlapping(bytes.as_ptr(), size) };
            }
        }
    });
    Single { tasks: 1, run }
}

/// The results of an operation's evaluation, of the types that it promised.
///
/// # Panics
/// If the operation breaks its promise.
pub(crate) fn evaluated(op: &dyn Op, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
    let results = op.eval(inputs, outputs);
    let kept = results.len() == outputs.len()
        && results
            .iter()
            .zip(outputs)
            .all(|(array, ty)| array.ty == *ty && array.data.len() == ty.numel());
    assert!(
        kept,
        "the evaluation of `{}` must return what its `infer` promises",
        op.name()
    );
    results
}

/// For an operation that reads indices: which input holds them, what they must be below, and the index that stands for
/// none.
fn indices_of(op: &dyn Op, inputs: &[Type]) -> Option<(usize, usize, f64)> {
    let any = op;
    if any.is::<Gather>() {
        return Some((1, inputs[0].shape[0], f64::NAN));
    }
    if let Some(op) = any.downcast_ref::<ScatterAdd>() {
        return Some((0, op.rows, f64::NAN));
    }
    if let Some(op) = any.downcast_ref::<CrossEntropy>() {
        return Some((1, inputs[0].last(), op.ignore as f64));
    }
    let op = any.downcast_ref::<CrossEntropyBackward>()?;
    Some((2, inputs[0].last(), op.ignore as f64))
}

/// Reads an element.
///
/// # Safety
/// `from` is readable for the dtype's bytes.
unsafe fn decode(from: *const u8, dtype: DType) -> f64 {
    // SAFETY: the caller's promise; unaligned reads need no alignment.
    unsafe {
        match dtype {
            DType::F32 => f64::from(from.cast::<f32>().read_unaligned()),
            DType::F64 => from.cast::<f64>().read_unaligned(),
            DType::BF16 => f64::from(f32::from_bits(
                u32::from(from.cast::<u16>().read_unaligned()) << 16,
            )),
            DType::I32 => f64::from(from.cast::<i32>().read_unaligned()),
            DType::U32 => f64::from(from.cast::<u32>().read_unaligned()),
            DType::Bool => f64::from(from.read()),
        }
    }
}

/// The bytes of an element, rounded to its dtype.
pub(crate) fn encode(value: f64, dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F32 => (value as f32).to_ne_bytes().to_vec(),
        DType::F64 => value.to_ne_bytes().to_vec(),
        DType::BF16 => bf16(value as f32).to_ne_bytes().to_vec(),
        DType::I32 => (value as i32).to_ne_bytes().to_vec(),
        DType::U32 => (value as u32).to_ne_bytes().to_vec(),
        DType::Bool => vec![u8::from(value != 0.0)],
    }
}

/// Rounds to the nearest bf16, ties to even; NaN stays NaN.
fn bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}
