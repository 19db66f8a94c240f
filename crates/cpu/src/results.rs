//! Results: dense copies of a plan's outputs that outlive the run.

use lessen_compile::{Host, Plan};
use lessen_graph::{Layout, Output, Type};

use crate::host_arrays::host_array;
use crate::operand::{Bases, Location, location};

/// A result: its type, where it lies, and the copy of it that outlives the run.
pub(crate) struct Returned {
    pub(crate) name: String,
    pub(crate) ty: Type,
    strides: Vec<usize>,
    location: Location,
    /// Words, so that elements of every dtype are aligned.
    buffer: Vec<u64>,
}

impl Returned {
    /// The result for an output of a plan's graph.
    pub(crate) fn new(plan: &Plan, constants: &[usize], output: &Output) -> Returned {
        let ty = plan.graph().ty(output.value).clone();
        Returned {
            name: output.name.clone(),
            strides: plan.place(output.value).layout.strides.clone(),
            location: location(plan, constants, output.value),
            buffer: vec![0; ty.bytes().div_ceil(8)],
            ty,
        }
    }

    /// The elements, in row-major order.
    pub(crate) fn host(&self) -> Host<'_> {
        // SAFETY: the buffer belongs to the result and holds its elements, all of them valid values of its dtype.
        unsafe { host_array(&self.ty, self.buffer.as_ptr().cast()) }
    }

    /// Copies the elements out of the memory of a run that has just ended.
    pub(crate) fn download(&mut self, bases: &Bases) {
        let size = self.location.size;
        let from = bases.at(self.location, std::ptr::null_mut());
        let to = self.buffer.as_mut_ptr().cast::<u8>();
        let shape = &self.ty.shape;
        let dense = Layout {
            offset: 0,
            strides: self.strides.clone(),
        }
        .is_dense(shape);
        if dense {
            // SAFETY: the plan keeps results until the end of the run.
            unsafe { to.copy_from_nonoverlapping(from, self.ty.bytes()) };
            return;
        }
        let mut index = vec![0; shape.len()];
        for i in 0..self.ty.numel() {
            let at: usize = index.iter().zip(&self.strides).map(|(i, s)| i * s).sum();
            // SAFETY: as above; the view's strides stay within its base.
            unsafe { to.add(i * size).copy_from_nonoverlapping(from.add(at * size), size) };
            for axis in (0..shape.len()).rev() {
                index[axis] += 1;
                if index[axis] < shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
    }
}
