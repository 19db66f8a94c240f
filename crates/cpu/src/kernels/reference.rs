//! The reference evaluation as a kernel, for an operation without one of its own: slow, allocating, and right for every
//! operation and dtype.

use std::sync::Arc;

use lessen_device::evaluated;
use lessen_graph::{Array, DType, IndexInput, Op, bf16_bits};

use super::kernel::{Round, Types, Work};

/// One task that evaluates the operation in `f64`, for inputs with these strides.
pub(crate) fn reference(op: Arc<dyn Op>, types: Types<'_>, strides: &[Vec<usize>]) -> Vec<Round> {
    let (inputs, outputs) = (types.inputs.to_vec(), types.outputs.to_vec());
    let strides = strides.to_vec();
    let run = Box::new(move |w: &Work<'_>, _| {
        let arrays: Vec<Array> = inputs
            .iter()
            .zip(&strides)
            .enumerate()
            .map(|(input, (ty, strides))| {
                let from = w.strided::<u8>(input);
                Array::from_fn(ty.clone(), |index| {
                    let at: usize = index.iter().zip(strides).map(|(i, s)| i * s).sum();
                    // SAFETY: the plan gives the input the elements of its type at these strides.
                    unsafe { decode(from.add(at * ty.dtype.bytes()), ty.dtype) }
                })
            })
            .collect();
        if let Some(indices) = op.index_input(&inputs)
            && let Some(index) = wrong_index(indices, &arrays[indices.input])
        {
            return w.index_errors.note(index, indices.limit);
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
    vec![Round { tasks: 1, run }]
}

/// The first index that an operation does not admit.
fn wrong_index(indices: IndexInput, array: &Array) -> Option<i32> {
    let wrong = |&&index: &&f64| !indices.admits(index as i64);
    array.data.iter().find(wrong).map(|&index| index as i32)
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
            DType::BF16 => f64::from(f32::from_bits(u32::from(from.cast::<u16>().read_unaligned()) << 16)),
            DType::I32 => f64::from(from.cast::<i32>().read_unaligned()),
            DType::U32 => f64::from(from.cast::<u32>().read_unaligned()),
            DType::U8 | DType::Bool => f64::from(from.read()),
        }
    }
}

/// The bytes of an element, rounded to its dtype.
pub(crate) fn encode(value: f64, dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F32 => (value as f32).to_ne_bytes().to_vec(),
        DType::F64 => value.to_ne_bytes().to_vec(),
        DType::BF16 => bf16_bits(value as f32).to_ne_bytes().to_vec(),
        DType::I32 => (value as i32).to_ne_bytes().to_vec(),
        DType::U32 => (value as u32).to_ne_bytes().to_vec(),
        DType::U8 => vec![value as u8],
        DType::Bool => vec![u8::from(value != 0.0)],
    }
}
