//! Traces inside of traces: the body of a repetition is a graph of its own, which takes as inputs what it uses of the
//! graph around it.

use std::fmt;

use crate::builder::GraphBuilder;
use crate::graph::Graph;
use crate::tensor::Tensor;
use crate::trace::{Trace, TraceRef};

impl Trace {
    /// An empty trace of a body inside of another trace, from whose streams of random numbers it draws. Mistakes are
    /// caught where those of the other trace are.
    pub(crate) fn inside(outer: TraceRef) -> Trace {
        let inner = Trace::building(GraphBuilder::from_stream(outer.streams()));
        let open = inner.open();
        open.outer.set(Some(outer));
        open.attempts.set(outer.open().attempts.get());
        inner
    }

    /// The finished body, and the tensors of the outer trace that its last inputs stand for.
    pub(crate) fn finish_inside(self) -> (Graph, Vec<Tensor>) {
        let open = self.open();
        let captured = open.captured.borrow().iter().map(|(outer, _)| *outer).collect();
        if let Some(outer) = open.outer.get() {
            outer.set_streams(self.streams());
        }
        drop(open);
        (self.finish(), captured)
    }
}

impl TraceRef {
    /// Whether this is the trace of a body inside of another trace.
    fn is_inside(self, other: TraceRef) -> bool {
        let outer = self.find().and_then(|open| open.outer.get());
        outer.is_some_and(|outer| outer == other || outer.is_inside(other))
    }

    /// The innermost of the traces of these tensors and this one; `what` begins the sentence of a mistake.
    ///
    /// # Panics
    /// If one is not inside of another.
    #[track_caller]
    pub(crate) fn innermost(self, what: fmt::Arguments<'_>, tensors: &[Tensor]) -> TraceRef {
        let mut inner = self;
        for x in tensors {
            if x.trace.is_inside(inner) {
                inner = x.trace;
            } else if x.trace != inner && !inner.is_inside(x.trace) {
                self.fail(format!("{what} a tensor of another trace"));
            }
        }
        inner
    }

    /// Refuses tensors that an operation cannot read together with those of this trace; `what` begins the sentence.
    ///
    /// # Panics
    /// As [`TraceRef::innermost`].
    #[track_caller]
    pub(crate) fn check_related(self, what: fmt::Arguments<'_>, tensors: &[Tensor]) {
        self.innermost(what, tensors);
    }

    /// The tensor of this trace that stands for a tensor of this trace or of one around it; `what` begins the sentence
    /// of a mistake.
    ///
    /// # Panics
    /// If the tensor belongs to no such trace.
    #[track_caller]
    pub(crate) fn captured(self, what: fmt::Arguments<'_>, tensor: Tensor) -> Tensor {
        if tensor.trace == self {
            return tensor;
        }
        let open = self.open();
        let Some(outer) = open.outer.get() else {
            self.fail(format!("{what} a tensor of another trace"));
        };
        let tensor = outer.captured(what, tensor);
        let known = open
            .captured
            .borrow()
            .iter()
            .find(|(of, _)| of.id == tensor.id)
            .map(|(_, own)| *own);
        known.unwrap_or_else(|| {
            let ty = tensor.ty();
            let number = self.with_graph(|graph| graph.inputs.len());
            let own = self.input(&number.to_string(), ty.dtype, &ty.shape);
            open.captured.borrow_mut().push((tensor, own));
            own
        })
    }
}
