//! Tensors: small handles of values in a trace. Each operation's file adds its methods.

use std::fmt;

use crate::graph::ValueId;
use crate::trace::Trace;
use crate::types::{DType, Type};

/// A handle of a value: a reference to its trace and a number. Copying it copies nothing else.
#[derive(Clone, Copy)]
pub struct Tensor<'g> {
    trace: &'g Trace,
    id: ValueId,
}

impl<'g> Tensor<'g> {
    pub(crate) fn new(trace: &'g Trace, id: ValueId) -> Tensor<'g> {
        Tensor { trace, id }
    }

    /// The trace it belongs to.
    pub fn trace(self) -> &'g Trace {
        self.trace
    }

    /// The value it stands for.
    pub fn id(self) -> ValueId {
        self.id
    }

    /// Dtype and shape.
    pub fn ty(self) -> Type {
        self.trace.with_graph(|g| g.ty(self.id).clone())
    }

    /// Shape, outermost axis first.
    pub fn shape(self) -> Vec<usize> {
        self.ty().shape
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
        assert!(
            (0..rank).contains(&resolved),
            "axis {axis} of a tensor of type {}",
            self.ty()
        );
        resolved as usize
    }
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}: {}", self.id.0, self.ty())
    }
}
