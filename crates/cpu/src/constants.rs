//! The constants of a plan, evaluated when it is loaded.

use lessen_base::Result;
use lessen_compile::Plan;
use lessen_device::{ConstantLayout, constant};

use crate::arena::Arena;
use crate::host_arrays::{host_bytes, host_ptr};

/// The memory of constants.
pub(crate) struct Constants {
    pub(crate) memory: Arena,
    /// The byte of each constant of the plan.
    pub(crate) offsets: Vec<usize>,
}

impl Constants {
    /// Evaluates the constants of a plan.
    ///
    /// # Errors
    /// Constants that the memory cannot hold.
    pub(crate) fn of(plan: &Plan) -> Result<Constants> {
        let ConstantLayout { offsets, bytes } = ConstantLayout::of(plan)?;
        let memory = Arena::new(bytes)?;
        for (&value, &offset) in plan.constants().iter().zip(&offsets) {
            let array = constant(plan, value);
            // SAFETY: the memory has room for each constant at its offset; the array is of the value's type.
            unsafe {
                let to = memory.ptr().add(offset);
                to.copy_from_nonoverlapping(host_ptr(&array.host()), host_bytes(&array.host()));
            }
        }
        Ok(Constants { memory, offsets })
    }
}
