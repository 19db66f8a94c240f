//! The constants of a plan, evaluated when it is loaded.

use lessen_base::Result;
use lessen_compile::{IndexSource, Plan, aligned};
use lessen_device::Host;
use lessen_graph::ValueId;

use crate::arena::Arena;
use crate::host_arrays::host_array;
use crate::index_checks::check;
use crate::kernels::reference::{encode, evaluated};

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
        let graph = plan.graph();
        let mut offsets = Vec::with_capacity(plan.constants().len());
        let mut total = 0;
        for &value in plan.constants() {
            offsets.push(total);
            total += aligned(graph.ty(value).bytes());
        }
        let memory = Arena::new(total)?;
        for (&value, &offset) in plan.constants().iter().zip(&offsets) {
            let node = &graph.nodes[graph.producer(value).expect("a constant's node").index()];
            let k = node.outputs.iter().position(|&v| v == value).expect("its output");
            let array = &evaluated(node.op.as_ref(), &[], &graph.output_types(node))[k];
            let dtype = array.ty.dtype;
            let bytes: Vec<u8> = array.data.iter().flat_map(|&x| encode(x, dtype)).collect();
            // SAFETY: the memory has room for each constant at its offset; the array has been checked to be of the
            // value's type.
            unsafe {
                memory
                    .ptr()
                    .add(offset)
                    .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }
        Ok(Constants { memory, offsets })
    }

    /// Checks the constants that are indices.
    ///
    /// # Errors
    /// An index that is not valid.
    pub(crate) fn check_indices(&self, plan: &Plan) -> Result<()> {
        for index in plan.indices() {
            if let IndexSource::Constant(value) = index.source {
                check(
                    "a constant",
                    &plan.graph().ty(value).shape,
                    index,
                    self.host(plan, value),
                )?;
            }
        }
        Ok(())
    }

    fn host(&self, plan: &Plan, value: ValueId) -> Host<'_> {
        let at = plan.constants().iter().position(|&v| v == value);
        let offset = self.offsets[at.expect("a constant of the plan")];
        // SAFETY: the constant lies there, aligned, and is not written to any more.
        unsafe { host_array(plan.graph().ty(value), self.memory.ptr().add(offset)) }
    }
}
