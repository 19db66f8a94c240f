//! The kernel of operations without elements.

use super::kernel::{Types, WholeKernel};

/// Where an operand is empty, and outputs are therefore empty, or sums of no elements.
pub(super) fn zeros(types: &Types<'_>) -> WholeKernel {
    let bytes: Vec<usize> = types.outputs.iter().map(|ty| ty.bytes()).collect();
    WholeKernel::dense(bytes.len(), move |w, output| {
        // SAFETY: see `Work`.
        unsafe { w.outputs[output].write_bytes(0, bytes[output]) };
    })
}
