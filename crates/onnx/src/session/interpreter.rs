//! Nodes one after another, each computed in memory.

use lessen_base::{Error, Result};

use super::constants::bytes;
use super::scope::Scope;
use crate::host::{Bodies, Data, HostCall, HostTensor, HostValue, host_operator};
use crate::model::Model;
use crate::proto::{GraphProto, NodeProto};
use crate::tensor::{Elements, Tensor};

/// Computes nodes of a model.
pub(super) struct Interpreter<'m> {
    model: &'m Model,
}

impl<'m> Interpreter<'m> {
    pub(super) fn new(model: &'m Model) -> Interpreter<'m> {
        Interpreter { model }
    }

    /// Computes a node and defines its outputs.
    ///
    /// # Errors
    /// What its operator does not do, with the node's name.
    pub(super) fn node(&self, node: &NodeProto, scope: &Scope<'_>) -> Result<()> {
        let outputs = self.outputs(node, scope).map_err(|why| {
            let name = [&node.name]
                .into_iter()
                .chain(&node.output)
                .find(|name| !name.is_empty());
            let shown = format!("{} `{}`", node.op_type, name.map_or("", String::as_str));
            self.model
                .error(&format!("the node {shown} cannot be run, since {}", why.message()))
        })?;
        for (name, value) in node.output.iter().zip(outputs) {
            if !name.is_empty() {
                scope.set(name, value);
            }
        }
        Ok(())
    }

    fn outputs(&self, node: &NodeProto, scope: &Scope<'_>) -> Result<Vec<HostValue>> {
        let Some(operator) = host_operator(node) else {
            return Err(Error::user(unknown(node)));
        };
        let inputs = node.input.iter().map(|name| {
            let is_there = !name.is_empty();
            is_there.then(|| scope.get(name)).transpose()
        });
        let call = HostCall {
            node,
            opset: self.model.opset(&node.domain).unwrap_or(1),
            inputs: inputs.collect::<Result<_>>()?,
            bodies: &Within {
                interpreter: self,
                scope,
            },
        };
        operator(&call)
    }
}

/// The sentence about an operator that is not known.
pub(super) fn unknown(node: &NodeProto) -> String {
    if node.domain.is_empty() {
        format!("the operator {} is not known", node.op_type)
    } else {
        format!("the operator {} of {} is not known", node.op_type, node.domain)
    }
}

/// The graphs inside of nodes, which read names of this scope.
struct Within<'a, 'm> {
    interpreter: &'a Interpreter<'m>,
    scope: &'a Scope<'a>,
}

impl Bodies for Within<'_, '_> {
    fn run(&self, graph: &GraphProto, inputs: Vec<HostValue>) -> Result<Vec<HostValue>> {
        let scope = self.scope.inner();
        for message in &graph.initializer {
            let Some(tensor) = Tensor::of(message)? else {
                return Err(Error::user(format!(
                    "the initializer `{}` has a type that is not known",
                    message.name
                )));
            };
            let bytes = match &tensor.elements {
                Elements::Held(bytes) => bytes.clone(),
                _ => self.bytes(&tensor)?,
            };
            let value = HostTensor::new(&tensor.shape, Data::of_bytes(tensor.element, &bytes))?;
            scope.set(&tensor.name, value.into());
        }
        for (input, value) in graph.input.iter().zip(inputs) {
            scope.set(&input.name, value);
        }
        for node in &graph.node {
            self.interpreter.node(node, &scope)?;
        }
        graph.output.iter().map(|output| scope.get(&output.name)).collect()
    }

    fn bytes(&self, tensor: &Tensor) -> Result<Vec<u8>> {
        bytes(self.interpreter.model, tensor)
    }
}
