//! Nodes one after another, each computed in memory.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lessen_base::{Error, Result};
use lessen_device::Backend;

use super::constants::{Constants, bytes};
use super::scope::Scope;
use crate::operators::host_operator;
use lessen_onnx::host::{Bodies, Body, HostCall, HostTensor, HostValue};
use lessen_onnx::model::version;
use lessen_onnx::proto::{GraphProto, NodeProto, OperatorSetIdProto, TensorProto};
use lessen_onnx::{Elements, Tensor};
use lessen_onnx::{Model, Node};

/// The most runs of all graphs inside nodes together: a loop has no other end.
const MOST_RUNS: u64 = 1 << 22;

/// What computes the bodies of nodes that repeat them, other than in memory.
pub(super) trait Repeats<B: Backend + ?Sized> {
    /// No turn so far of a node that repeats a body; none where it does not. `inputs` are those of the first turn.
    fn begin<'a>(
        &'a self,
        owner: &Arc<Node>,
        body: &Body<'_>,
        inputs: &[HostValue],
        around: &Scope<'_>,
    ) -> Option<Box<dyn Turns<B> + 'a>>;
}

/// The turns of a node while it is computed.
pub(super) trait Turns<B: Backend + ?Sized> {
    /// The outputs of the next turn; none where it is to be computed in memory.
    ///
    /// # Errors
    /// Those of the body's nodes, memory that the device does not have.
    fn next(
        &mut self,
        interpreter: &Interpreter<'_, B>,
        body: &Body<'_>,
        inputs: &[HostValue],
        around: &Scope<'_>,
    ) -> Result<Option<Vec<HostValue>>>;

    /// Keeps what the turns have learned for the next run.
    fn end(self: Box<Self>, interpreter: &Interpreter<'_, B>);
}

/// Computes nodes of a model.
pub(super) struct Interpreter<'m, B: Backend + ?Sized> {
    pub model: &'m Model,
    pub constants: &'m Constants,
    pub device: RefCell<&'m mut B>,
    repeats: &'m dyn Repeats<B>,
    /// How long compiling has taken.
    pub compile_time: Cell<Duration>,
    /// How often graphs inside nodes have run.
    runs: Cell<u64>,
}

impl<'m, B: Backend + ?Sized> Interpreter<'m, B> {
    pub(super) fn new(
        (model, constants): (&'m Model, &'m Constants),
        device: &'m mut B,
        repeats: &'m dyn Repeats<B>,
    ) -> Interpreter<'m, B> {
        Interpreter {
            model,
            constants,
            device: RefCell::new(device),
            repeats,
            compile_time: Cell::default(),
            runs: Cell::new(0),
        }
    }

    /// Computes a node and defines its outputs.
    ///
    /// # Errors
    /// What its operator does not do, with the node's name.
    pub(super) fn node(&self, node: &Arc<Node>, scope: &Scope<'_>) -> Result<()> {
        let opsets = node.opsets.as_deref().unwrap_or(&self.model.opsets);
        // Extents of what a body inside of a body reads may be others in each turn of the outer one.
        let owner = Some(node).filter(|_| scope.is_outermost());
        let outputs = self.compute((&node.proto, owner), opsets, scope);
        let outputs = outputs.map_err(|why| match scope.is_outermost() {
            true => self.model.error(why.message()),
            false => why,
        });
        define(&node.proto, outputs?, scope);
        Ok(())
    }

    /// The outputs of a node of the model or of a graph inside it.
    ///
    /// # Errors
    /// A sentence that names the node, but not the file.
    fn compute(
        &self,
        (node, owner): (&NodeProto, Option<&Arc<Node>>),
        opsets: &[OperatorSetIdProto],
        scope: &Scope<'_>,
    ) -> Result<Vec<HostValue>> {
        let within = Within {
            interpreter: self,
            owner,
            opsets,
            scope,
            turns: RefCell::new(None),
        };
        let outputs = within.outputs(node);
        if let Some(turns) = within.turns.take() {
            turns.end(self);
        }
        outputs.map_err(|why| {
            let mut names = [&node.name].into_iter().chain(&node.output);
            let name = names.find(|name| !name.is_empty()).map_or("", String::as_str);
            let (operator, why) = (&node.op_type, why.message());
            Error::user(format!("the node {operator} `{name}` cannot be run, since {why}"))
        })
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
struct Within<'a, 'm, B: Backend + ?Sized> {
    interpreter: &'a Interpreter<'m, B>,
    /// The node, where programs may compute its body.
    owner: Option<&'a Arc<Node>>,
    opsets: &'a [OperatorSetIdProto],
    scope: &'a Scope<'a>,
    /// Its turns so far, as far as programs compute them.
    turns: RefCell<Option<Box<dyn Turns<B> + 'a>>>,
}

impl<B: Backend + ?Sized> Within<'_, '_, B> {
    /// The outputs of the node.
    fn outputs(&self, node: &NodeProto) -> Result<Vec<HostValue>> {
        let Some(operator) = host_operator(node) else {
            return Err(Error::user(unknown(node)));
        };
        let inputs = node.input.iter().map(|name| {
            let is_there = !name.is_empty();
            is_there.then(|| self.scope.get(name)).transpose()
        });
        let call = HostCall {
            node,
            opset: version(self.opsets, &node.domain),
            inputs: inputs.collect::<Result<_>>()?,
            bodies: self,
        };
        operator(&call)
    }

    fn array(&self, message: &TensorProto) -> Result<HostTensor> {
        match Tensor::of(message)? {
            Some(tensor) if matches!(tensor.elements, Elements::There(_)) => {
                HostTensor::of_bytes(&tensor.shape, tensor.element, &self.bytes(&tensor)?)
            }
            _ => HostTensor::of_message(message),
        }
    }
}

impl<B: Backend + ?Sized> Bodies for Within<'_, '_, B> {
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
        if let Some(owner) = self.owner {
            let mut turns = self.turns.borrow_mut();
            let around = self.scope;
            if turns.is_none() {
                *turns = self.interpreter.repeats.begin(owner, body, &inputs, around);
            }
            if let Some(turns) = turns.as_mut()
                && let Some(outputs) = turns.next(self.interpreter, body, &inputs, around)?
            {
                return Ok(outputs);
            }
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
            let outputs = self.interpreter.compute((node, None), self.opsets, &scope)?;
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
