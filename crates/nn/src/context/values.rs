//! Values of the graph in place of parameters, for a model that is called as a function of its parameters.

use std::collections::BTreeMap;
use std::rc::Rc;

use lessen_graph::Tensor;

use super::Context;

impl<'g> Context<'g> {
    /// Gives parameters and buffers these values, by their full names, in place of their states: a graph that trains a
    /// model for several steps calls it with the parameters of each. What has a value here is not declared; what has
    /// none is read as ever.
    pub fn with_values(&self, values: BTreeMap<String, Tensor<'g>>) -> Context<'g> {
        let values = Rc::new(values);
        Context { values, ..self.clone() }
    }

    /// The value that stands in for a parameter.
    #[track_caller]
    pub(super) fn value_of(&self, name: &str, shape: &[usize]) -> Option<Tensor<'g>> {
        let value = *self.values.get(name)?;
        if value.shape() != shape || !value.dtype().is_float() {
            self.trace().fail(format!(
                "the value {} given for the parameter `{name}` is not f32 of shape {shape:?}",
                value.ty()
            ));
        }
        Some(value)
    }
}
