//! Elements of states, copied to a device block by block.

use lessen_base::Result;
use lessen_device::{Backend, Host, ModelId};
use lessen_graph::{Array, DType};

use lessen_onnx::Model;
use lessen_onnx::Tensor;

/// Elements that are copied to the device at once.
const BLOCK: usize = 1 << 18;

/// Copies a constant to a state.
///
/// # Errors
/// Those of the device.
pub(super) fn upload_array<B: Backend + ?Sized>(
    on: (&mut B, ModelId),
    name: &str,
    dtype: DType,
    array: &Array,
) -> Result<()> {
    upload_part(on, name, dtype, 0, &array.data)
}

/// Copies an initializer to a state, block by block.
///
/// # Errors
/// Those of the device, a file that cannot be read.
pub(super) fn upload_tensor<B: Backend + ?Sized>(
    (backend, id): (&mut B, ModelId),
    (model, tensor): (&Model, &Tensor),
    name: &str,
    dtype: DType,
) -> Result<()> {
    let (mut at, element) = (0, tensor.element);
    let mut numbers = Vec::with_capacity(BLOCK.min(tensor.numel()));
    tensor.for_each_block(&model.source, &mut |bytes| {
        for block in bytes.chunks(BLOCK * element.bytes()) {
            numbers.clear();
            numbers.extend(block.chunks_exact(element.bytes()).map(|bytes| element.read(bytes)));
            upload_part((backend, id), name, dtype, at, &numbers)?;
            at += numbers.len();
        }
        Ok(())
    })
}

fn upload_part<B: Backend + ?Sized>(
    (backend, id): (&mut B, ModelId),
    name: &str,
    dtype: DType,
    first: usize,
    data: &[f64],
) -> Result<()> {
    match dtype {
        DType::F32 => {
            let data: Vec<f32> = data.iter().map(|x| *x as f32).collect();
            backend.upload_part(id, name, first, Host::F32(&data))
        }
        DType::F64 => backend.upload_part(id, name, first, Host::F64(data)),
        DType::I32 => {
            let data: Vec<i32> = data.iter().map(|x| *x as i32).collect();
            backend.upload_part(id, name, first, Host::I32(&data))
        }
        _ => {
            let data: Vec<u8> = data.iter().map(|x| *x as u8).collect();
            let host = if dtype == DType::Bool {
                Host::Bool(&data)
            } else {
                Host::U8(&data)
            };
            backend.upload_part(id, name, first, host)
        }
    }
}
