//! The handle of a value of a graph under construction. Each operation's file adds its methods to it.

use std::fmt;

use crate::graph::ValueId;
use crate::trace::TraceRef;
use crate::types::{DType, Type};

/// A handle of a value: the handle of its trace and a number. Copying it does not copy the value. It stays in the
/// thread of its trace:
///
/// ```compile_fail
/// let trace = lessen_graph::Trace::new();
/// let x = trace.input("x", lessen_graph::DType::F32, &[2]);
/// std::thread::scope(|threads| threads.spawn(|| x + 1.0));
/// ```
#[derive(Clone, Copy)]
pub struct Tensor {
    pub(crate) trace: TraceRef,
    pub(crate) id: ValueId,
}

impl Tensor {
    /// The trace it belongs to.
    pub fn trace(self) -> TraceRef {
        self.trace
    }

    /// The value.
    pub fn id(self) -> ValueId {
        self.id
    }

    /// Dtype and shape.
    pub fn ty(self) -> Type {
        self.trace.with_graph(|g| g.ty(self.id).clone())
    }

    /// Shape, outermost axis first.
    pub fn shape(self) -> Vec<usize> {
        self.ty().shape.into_vec()
    }

    /// Element type.
    pub fn dtype(self) -> DType {
        self.ty().dtype
    }

    /// Number of axes.
    pub fn rank(self) -> usize {
        self.ty().rank()
    }

    /// The extent of an axis, counted from the end when negative.
    ///
    /// # Panics
    /// If there is no such axis.
    #[track_caller]
    pub fn dim(self, axis: isize) -> usize {
        let shape = self.shape();
        shape[self.axis(axis)]
    }

    /// A non-negative axis from one that may count from the end.
    ///
    /// # Panics
    /// If there is no such axis.
    #[track_caller]
    pub fn axis(self, axis: isize) -> usize {
        let rank = self.rank() as isize;
        let resolved = if axis < 0 { axis + rank } else { axis };
        if !(0..rank).contains(&resolved) {
            self.trace
                .fail(format!("axis {axis} of a tensor of type {}", self.ty()));
        }
        resolved as usize
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}: {}", self.id.0, self.ty())
    }
}
