//! The values that nodes of a section read: results of its program, states, constants, and floats with the integers
//! that they are restored from.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_device::Backend;
use lessen_graph::{Array, Trace, Type};

use super::{Builder, MOST_KNOWN};
use crate::session::program::StateSource;
use lessen_onnx::Element;
use lessen_onnx::Node;
use lessen_onnx::host::HostTensor;
use lessen_onnx::import::{Call, Codes, Held, HeldInputs, Restored, Value, moves_elements, operator};

/// The most elements of a float constant that is part of a program; more are a state.
const MOST_INLINE: usize = 1;

/// The most elements that are shown to a tracer that is asked for extents alone.
const MOST_SHOWN: usize = 1 << 12;

impl<B: Backend + ?Sized> Builder<'_, '_, B> {
    /// Notes what floats that never change were restored from.
    pub(super) fn note_restored(&mut self, node: &Node) -> Result<()> {
        if node.proto.op_type != "DequantizeLinear" || node.attribute("block_size").is_some_and(|size| size.i != 0) {
            return Ok(());
        }
        let array = |position: usize| -> Result<Option<Arc<HostTensor>>> {
            let Some(name) = node.input(position) else {
                return Ok(None);
            };
            let value = if self.scope.has(name) {
                Some(self.scope.get(name)?)
            } else {
                self.constants.get(name)?
            };
            Ok(value.and_then(|value| value.tensor().cloned()))
        };
        let (integers, scale, zero) = (array(0)?, array(1)?, array(2)?);
        let Some(output) = node.proto.output.first() else {
            return Ok(());
        };
        let values = self.scope.get(output)?.tensor().cloned();
        if let (Some(integers), Some(scale), Some(values)) = (integers, scale, values)
            && matches!(integers.element(), Some(Element::Int(1 | 4) | Element::Unsigned(1)))
            && values.element() == Some(Element::F32)
        {
            let restored = Restored {
                name: node.input(0).unwrap_or_default().to_string(),
                integers,
                scale,
                zero,
                axis: node.attribute("axis").map_or(1, |axis| axis.i),
                values,
            };
            self.restored.insert(output.clone(), Arc::new(restored));
        }
        Ok(())
    }

    /// A value that a node reads, for its tracer.
    pub(super) fn value(&mut self, name: &str) -> Result<(Value, Element)> {
        if let Some((tensor, element)) = self.pending.get(name) {
            let (tensor, element) = (*tensor, *element);
            let value = match element {
                Element::Int(1) | Element::Unsigned(1) => Value::Codes(Codes {
                    tensor,
                    is_signed: element == Element::Int(1),
                }),
                Element::Int(4) => Value::Integers(tensor),
                _ => Value::Traced(tensor),
            };
            return Ok((value, element));
        }
        if let Some(restored) = self.restored.get(name) {
            return Ok((Value::Restored(restored.clone()), Element::F32));
        }
        if let Some((tensor, element, _)) = self.states.get(name) {
            return Ok((Value::Traced(*tensor), *element));
        }
        let is_initializer = !self.scope.has(name);
        if let Some(tensor) = self.model.initializers.get(name).filter(|_| is_initializer)
            && tensor.element.is_float()
            && tensor.numel() > MOST_INLINE
        {
            let ty = Type::new(tensor.element.dtype(), &tensor.shape);
            let source = StateSource::Initializer(name.to_string());
            return Ok((self.state(name, (tensor.element, &ty), source), tensor.element));
        }
        let value = if is_initializer {
            self.constants
                .get(name)?
                .ok_or_else(|| Error::user(format!("nothing defines the value `{name}`")))?
        } else {
            self.scope.get(name)?
        };
        let Some((tensor, element)) = value
            .tensor()
            .and_then(|tensor| Some((tensor.clone(), tensor.element()?)))
        else {
            return Err(Error::user("a list is no value of a program"));
        };
        if !element.is_traced() {
            return Err(Error::user(format!("{element} is no type of a program")));
        }
        if !self.scope.is_fixed(name) {
            if self.unsteady.contains(name) {
                return Err(Error::user(
                    "an array of other extents in each turn is no value of a program",
                ));
            }
            let is_turn = self.is_turn();
            let held = self.held.entry(name.to_string());
            let held = held.or_insert_with(|| Arc::new(Held::new(name, tensor, is_turn)));
            return Ok((Value::Held(held.clone()), element));
        }
        let most = if element.is_float() { MOST_INLINE } else { MOST_KNOWN };
        let ty = Type::new(element.dtype(), tensor.shape());
        if tensor.len() <= most {
            return Ok((Value::known(Array::new(ty, tensor.data().to_f64())), element));
        }
        Ok((self.state(name, (element, &ty), StateSource::Computed(tensor)), element))
    }

    /// Whether the extents of a node's results follow from those of its inputs, none of which are unsteady, and from
    /// what is fixed: then the node can be traced without the elements of others.
    pub(super) fn keeps_extents(&self, node: &Node) -> bool {
        let Ok(operator) = operator(node) else { return false };
        let is_known = |name: &str| self.scope.is_fixed(name);
        let mut inputs = Vec::with_capacity(node.proto.input.len());
        for position in 0..node.proto.input.len() {
            let Some(name) = node.input(position) else {
                inputs.push(None);
                continue;
            };
            let found = self.scope.get(name).ok().filter(|_| !self.unsteady.contains(name));
            let Some(tensor) = found.and_then(|value| value.tensor().cloned()) else {
                return false;
            };
            let element = tensor.element().filter(|element| element.is_traced());
            inputs.push(Some(match element {
                Some(element) if is_known(name) && tensor.len() <= MOST_SHOWN => {
                    let ty = Type::new(element.dtype(), tensor.shape());
                    Value::known(Array::new(ty, tensor.data().to_f64()))
                }
                _ => Value::Held(Arc::new(Held::new(name, tensor, true))),
            }));
        }
        let trace = Trace::new();
        let mut call = Call {
            node,
            opset: self.model.version(node),
            trace: *trace,
            inputs,
            constants: Some(&mut HashMap::new()),
            held: Some(&mut HeldInputs::new()),
            codes: None,
            moves_elements: moves_elements(node),
            elements: &[],
            fixed: None,
            source: &self.model.source,
        };
        let traced = trace.attempt_described(|| operator(&mut call));
        matches!(traced, Ok(Ok(_))) && node.captured.is_empty()
    }

    /// A state of the program.
    fn state(&mut self, name: &str, (element, ty): (Element, &Type), source: StateSource) -> Value {
        let tensor = self.trace.state(name, ty.dtype, &ty.shape);
        self.states.insert(name.to_string(), (tensor, element, source));
        Value::Traced(tensor)
    }
}
