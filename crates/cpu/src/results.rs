//! Results: dense copies of a plan's outputs that outlive the run.

use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_compile::Plan;
use lessen_device::{Host, HostArray};
use lessen_graph::{Layout, Output, Type};

use crate::host_arrays::host_mut_ptr;
use crate::operand::{Bases, Location, location};

/// Where the elements of a value lie, as the plan has placed them.
pub(crate) struct Source {
    pub(crate) ty: Type,
    layout: Layout,
    location: Location,
}

impl Source {
    /// The elements of an output of a plan's graph.
    pub(crate) fn of(plan: &Plan, constants: &[usize], output: &Output) -> Source {
        Source {
            ty: plan.graph().ty(output.value).clone(),
            layout: Layout {
                offset: 0,
                strides: plan.place(output.value).layout.strides.clone(),
            },
            location: location(plan, constants, output.value),
        }
    }

    /// Copies the elements, in row-major order.
    ///
    /// # Safety
    /// The elements have been computed, and their memory is as it was then. `to` has room for the type, and nobody
    /// else reads or writes it.
    pub(crate) unsafe fn copy(&self, bases: &Bases, to: *mut u8) {
        let size = self.location.size;
        let from = bases.at(self.location, std::ptr::null_mut());
        let shape = &self.ty.shape;
        if self.layout.is_dense(shape) {
            // SAFETY: the caller's promise.
            unsafe { to.copy_from_nonoverlapping(from, self.ty.bytes()) };
            return;
        }
        let mut index = vec![0; shape.len()];
        for i in 0..self.ty.numel() {
            let at: usize = index.iter().zip(&self.layout.strides).map(|(i, s)| i * s).sum();
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

/// A result: its name, where it lies, and the copy of it that outlives the run.
pub(crate) struct Returned {
    pub(crate) name: String,
    source: Source,
    array: Arc<HostArray>,
    /// The array of the next run, where somebody holds the array of the last run.
    next: Option<HostArray>,
}

impl Returned {
    /// The result for an output of a plan's graph.
    ///
    /// # Errors
    /// A result that the memory cannot hold.
    pub(crate) fn new(plan: &Plan, constants: &[usize], output: &Output) -> Result<Returned> {
        let source = Source::of(plan, constants, output);
        Ok(Returned {
            name: output.name.clone(),
            array: Arc::new(zeros(&output.name, &source.ty)?),
            next: None,
            source,
        })
    }

    /// Dtype and shape.
    pub(crate) fn ty(&self) -> &Type {
        &self.source.ty
    }

    /// The elements, in row-major order.
    pub(crate) fn host(&self) -> Host<'_> {
        self.array.host()
    }

    /// The elements, in row-major order, which stay as they are.
    pub(crate) fn shared(&self) -> Arc<HostArray> {
        self.array.clone()
    }

    /// Prepares for the next run: the elements of the last one stay as they are where somebody holds them.
    ///
    /// # Errors
    /// A result that the memory cannot hold.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        if Arc::get_mut(&mut self.array).is_none() && self.next.is_none() {
            self.next = Some(zeros(&self.name, self.ty())?);
        }
        Ok(())
    }

    /// Copies the elements out of the memory of a run that has just ended, after [`Returned::prepare`].
    pub(crate) fn download(&mut self, bases: &Bases) {
        if let Some(next) = self.next.take() {
            self.array = Arc::new(next);
        }
        let array = Arc::get_mut(&mut self.array).expect("nobody else holds the array of this run");
        // SAFETY: the plan keeps results until the end of the run, and the array is of the result's type.
        unsafe { self.source.copy(bases, host_mut_ptr(array)) };
    }
}

/// Zeros of a result's type.
fn zeros(name: &str, ty: &Type) -> Result<HostArray> {
    HostArray::zeros(ty.dtype, ty.numel()).ok_or_else(|| {
        Error::user(format!(
            "the memory does not hold the result `{name}` of type {ty}; return a smaller one"
        ))
    })
}
