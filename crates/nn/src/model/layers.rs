//! The layers of a model that can be quantized, and how they are.

use lessen_base::{Error, Result};
use lessen_graph::Trace;

use super::Model;
use crate::context::Cx;
use crate::patterns::listed;
use crate::quantization::{Quantization, Ranges};

impl Model {
    /// The names of the layers that multiply their input with a matrix or a kernel of their own, in order of first use,
    /// such as `transformer.h.0.mlp.c_fc`. Products with a table of token embeddings, products inside of attention and
    /// recurrent layers are none.
    pub fn layers(&self) -> Vec<String> {
        let trace = Trace::new();
        let cx = Cx::new(*trace, false).keeping_layer_inputs();
        self.logits(cx, self.smallest_batch());
        let mut names: Vec<String> = Vec::new();
        for (name, _) in cx.layer_inputs() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// How its layers are quantized; none if they are not.
    pub fn quantization(&self) -> Option<&Quantization> {
        self.class().quantization()
    }

    /// Replaces how its layers are quantized.
    ///
    /// # Errors
    /// A model without layers that can be quantized, a layer that it does not have, and ranges that are fixed for the
    /// weights of a file.
    pub fn set_quantization(&mut self, quantization: Option<Quantization>) -> Result<()> {
        if let Some(own) = &quantization {
            if own.ranges == Ranges::Fixed {
                return Err(Error::user(
                    "fixed ranges are those of a file whose weights are integers",
                ));
            }
            self.check_quantization(own)?;
        }
        *self.class_mut().quantization_mut() = quantization;
        Ok(())
    }

    /// Leaves out the bits of layers that the model does not have: those of a head that another one replaces.
    pub(crate) fn forget_foreign_layers(&mut self) {
        if self.quantization().is_some_and(|own| !own.layers.is_empty()) {
            let layers = self.layers();
            if let Some(own) = self.class_mut().quantization_mut() {
                own.layers.retain(|name, _| layers.contains(name));
            }
        }
    }

    /// Checks that the model has the layers that a quantization names.
    ///
    /// # Errors
    /// A model without layers that can be quantized, and a layer that it does not have.
    pub(crate) fn check_quantization(&self, own: &Quantization) -> Result<()> {
        let layers = self.layers();
        if layers.is_empty() {
            return Err(Error::user("the model has no layers that can be quantized"));
        }
        match own.layers.keys().find(|name| !layers.contains(name)) {
            Some(name) if own.ranges != Ranges::Fixed => Err(Error::user(format!(
                "the model has no layer `{name}` to quantize; it has {}",
                listed(&layers)
            ))),
            _ => Ok(()),
        }
    }
}
