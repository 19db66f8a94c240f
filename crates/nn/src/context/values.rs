//! Values of the graph in place of parameters, for a model that is called as a function of its parameters.

use std::collections::BTreeMap;
use std::rc::Rc;

use lessen_graph::Tensor;

use super::Cx;

impl Cx {
    /// Gives parameters and buffers these values, by their full names, in place of their states: a graph that trains a
    /// model for several steps calls it with the parameters of each. What has a value here is not declared; what has
    /// none is read as ever.
    pub fn with_values(self, values: BTreeMap<String, Tensor>) -> Cx {
        self.but(|inner| inner.values = Rc::new(values))
    }

    /// The value that stands in for a parameter.
    #[track_caller]
    pub(super) fn value_of(self, name: &str, shape: &[usize]) -> Option<Tensor> {
        let value = *self.inner().values.get(name)?;
        if value.shape() != shape || !value.dtype().is_float() {
            self.trace().fail(format!(
                "the value {} given for the parameter `{name}` is not f32 of shape {shape:?}",
                value.ty()
            ));
        }
        Some(value)
    }
}
