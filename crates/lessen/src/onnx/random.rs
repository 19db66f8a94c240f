//! Random inputs.

use lessen_device::{Backend, HostArray};
use lessen_onnx::Executable;

/// Random arrays for the inputs of a model, as [`lessen_device::random_inputs`].
pub fn random_inputs<B: Backend + ?Sized>(executable: &Executable<B>, seed: u64) -> Vec<(String, HostArray)> {
    let all = lessen_device::random_inputs(executable.plan().graph(), seed);
    let arrays = all
        .into_iter()
        .map(|(name, array)| (name, HostArray::of(array.ty.dtype, &array.data)));
    arrays.collect()
}
