//! Nodes one after another, each computed in memory.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;

use lessen_base::{Error, Result};

use super::constants::bytes;
use super::scope::Scope;
use crate::operators::host_operator;
use lessen_onnx::host::{Bodies, Body, HostCall, HostTensor, HostValue};
use lessen_onnx::model::version;
use lessen_onnx::proto::{GraphProto, NodeProto, OperatorSetIdProto, TensorProto};
use lessen_onnx::{Elements, Tensor};
use lessen_onnx::{Model, Node};

/// The most runs of all graphs inside nodes together: a loop has no other end.
const MOST_RUNS: u64 = 1 << 22;

/// Computes nodes of a model.
pub(super) struct Interpreter<'m> {
    model: &'m Model,
    /// How often graphs inside nodes have run.
    runs: Cell<u64>,
}

impl<'m> Interpreter<'m> {
    pub(super) fn new(model: &'m Model) -> Interpreter<'m> {
        Interpreter {
            model,
            runs: Cell::new(0),
        }
    }

    /// Computes a node and defines its outputs.
    ///
    /// # Errors
    /// What its operator does not do, with the node's name.
    pub(super) fn node(&self, node: &Node, scope: &Scope<'_>) -> Result<()> {
        let opsets = node.opsets.as_deref().unwrap_or(&self.model.opsets);
        let outputs = self.compute(&node.proto, opsets, scope);
        define(
            &node.proto,
            outputs.map_err(|why| self.model.error(why.message()))?,
            scope,
        );
        Ok(())
    }

    /// The outputs of a node of the model or of a graph inside it.
    ///
    /// # Errors
    /// A sentence that names the node, but not the file.
    fn compute(&self, node: &NodeProto, opsets: &[OperatorSetIdProto], scope: &Scope<'_>) -> Result<Vec<HostValue>> {
        self.outputs(node, opsets, scope).map_err(|why| {
            let mut names = [&node.name].into_iter().chain(&node.output);
            let name = names.find(|name| !name.is_empty()).map_or("", String::as_str);
            let (operator, why) = (&node.op_type, why.message());
            Error::user(format!("the node {operator} `{name}` cannot be run, since {why}"))
        })
    }

    fn outputs(&self, node: &NodeProto, opsets: &[OperatorSetIdProto], scope: &Scope<'_>) -> Result<Vec<HostValue>> {
        let Some(operator) = host_operator(node) else {
            return Err(Error::user(unknown(node)));
        };
        let inputs = node.input.iter().map(|name| {
            let is_there = !name.is_empty();
            is_there.then(|| scope.get(name)).transpose()
        });
        let call = HostCall {
            node,
            opset: version(opsets, &node.domain),
            inputs: inputs.collect::<Result<_>>()?,
            bodies: &Within {
                interpreter: self,
                opsets,
                scope,
            },
        };
        operator(&call)
    }
}

/// Defines the outputs of a node that have names.
fn define(node: &NodeProto, outputs: Vec<HostValue>, scope: &Scope<'_>) {
    for (name, value) in node.output.iter().zip(outputs) {
        if !name.is_empty() {
            scope.set(name, value);
        }
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
    opsets: &'a [OperatorSetIdProto],
    scope: &'a Scope<'a>,
}

impl Within<'_, '_> {
    fn array(&self, message: &TensorProto) -> Result<HostTensor> {
        match Tensor::of(message)? {
            Some(tensor) if matches!(tensor.elements, Elements::There(_)) => {
                HostTensor::of_bytes(&tensor.shape, tensor.element, &self.bytes(&tensor)?)
            }
            _ => HostTensor::of_message(message),
        }
    }
}

impl Bodies for Within<'_, '_> {
    fn body<'g>(&self, graph: &'g GraphProto) -> Result<Body<'g>> {
        let mut initializers = HashMap::with_capacity(graph.initializer.len());
        for message in &graph.initializer {
            initializers.insert(message.name.clone(), self.array(message)?.into());
        }
        Ok(Body::new(graph, initializers))
    }

    fn run(&self, body: &Body<'_>, inputs: Vec<HostValue>) -> Result<Vec<HostValue>> {
        let runs = &self.interpreter.runs;
        runs.set(runs.get() + 1);
        if runs.get() > MOST_RUNS {
            return Err(Error::user(format!(
                "the graphs inside of nodes run more than {MOST_RUNS} times"
            )));
        }
        let scope = self.scope.inner(body.initializers.clone());
        for (input, value) in body.graph.input.iter().zip(inputs) {
            scope.set(&input.name, value);
        }
        for (node, fixed) in body.graph.node.iter().zip(&body.fixed) {
            if let Some(outputs) = fixed.as_ref().and_then(OnceCell::get) {
                define(node, outputs.clone(), &scope);
                continue;
            }
            let outputs = self.interpreter.compute(node, self.opsets, &scope)?;
            if let Some(fixed) = fixed {
                fixed.get_or_init(|| outputs.clone());
            }
            define(node, outputs, &scope);
        }
        let outputs = body.graph.output.iter();
        outputs.map(|output| scope.get(&output.name)).collect()
    }

    fn bytes(&self, tensor: &Tensor) -> Result<Vec<u8>> {
        bytes(self.interpreter.model, tensor)
    }
}
