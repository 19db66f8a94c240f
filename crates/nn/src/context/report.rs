//! Values beside the loss that a training step reports.

use lessen_graph::Tensor;

use super::{Cx, join};
use crate::names::{is_reserved, refusal};

impl Cx {
    /// Lets [`Cx::report`] name results of the graph.
    pub fn with_reports(self) -> Cx {
        self.but(|inner| inner.reports = true)
    }

    /// Names a float scalar `PREFIX.name`, such as an accuracy, that a training step reports beside its loss, as the
    /// mean over its micro-batches, weighted by their shares. It is no part of the training. Graphs that are no
    /// training steps do not compute it.
    ///
    /// # Panics
    /// If the value is no float scalar, or the name is taken or one of training; see [`names`](crate::names).
    #[track_caller]
    pub fn report(self, name: &str, value: Tensor) {
        let inner = self.inner();
        let name = join(&inner.prefix, name);
        let (trace, ty) = (self.trace, value.ty());
        if ty.numel() != 1 || !ty.dtype.is_float() {
            trace.fail(format!(
                "the reported value `{name}` is of type {ty}, but it must be a float scalar; end it with .mean() or .sum()"
            ));
        }
        if is_reserved(&name) {
            trace.fail(refusal(&name));
        }
        if !inner.reports {
            return;
        }
        if trace.with_graph(|graph| graph.outputs.iter().any(|output| output.name == name)) {
            trace.fail(format!(
                "two values are reported as `{name}`; give one of them another name"
            ));
        }
        trace.output(&name, value);
    }
}
