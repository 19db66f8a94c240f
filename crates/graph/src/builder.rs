//! A graph under construction whose values are plain numbers: for programs that hold no references into it, such as
//! bindings of other languages. [`Trace`](crate::Trace) is built on it.

use std::collections::HashSet;
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::attrs::Attrs;
use crate::graph::{Assign, Graph, InputKind, Output, Phase, ValueId};
use crate::op::Op;
use crate::registry::Registry;
use crate::types::{DType, Type};

/// A graph under construction. Every mistake is an error, after which the graph is as before.
///
/// ```
/// use lessen_graph::{DType, GraphBuilder, Phase, Registry, print};
///
/// let registry = Registry::standard();
/// let mut builder = GraphBuilder::new();
/// let x = builder.input("x", DType::F32, &[2, 3])?;
/// let w = builder.state("w", DType::F32, &[3, 1])?;
/// builder.set_scope("head");
/// let y = builder.push_named(&registry, "matmul", "transpose_a=false, transpose_b=false", &[x, w])?[0];
/// let loss = builder.push_named(&registry, "reduce", "f=sum, axes=[0,1]", &[y])?[0];
/// let gradient = builder.grad(loss, &[w])?[0];
/// builder.set_phase(Phase::Update);
/// let new = builder.push_named(&registry, "binary", "f=sub", &[w, gradient])?[0];
/// builder.output("loss", loss)?;
/// builder.assign(w, new)?;
/// assert!(builder.output("loss", y).is_err(), "two outputs of one name");
/// assert!(print(&builder.finish()).contains("matmul(%0, %1) {transpose_a=false, transpose_b=false} @head"));
/// # Ok::<(), lessen_graph::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct GraphBuilder {
    graph: Graph,
    phase: Phase,
    scope: Arc<str>,
    /// The next stream of random bits.
    streams: u32,
    names: Names,
}

/// Names that are taken and states that are assigned.
#[derive(Debug, Default)]
struct Names {
    inputs: HashSet<String>,
    outputs: HashSet<String>,
    assigned: HashSet<ValueId>,
}

impl Names {
    fn of(graph: &Graph) -> Names {
        Names {
            inputs: graph.inputs.iter().map(|i| i.name.clone()).collect(),
            outputs: graph.outputs.iter().map(|o| o.name.clone()).collect(),
            assigned: graph.assigns.iter().map(|a| a.target).collect(),
        }
    }
}

/// A point of the construction to which the nodes can be taken back.
pub(crate) struct Mark {
    nodes: usize,
    values: usize,
    phase: Phase,
    scope: Arc<str>,
    streams: u32,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new() -> GraphBuilder {
        GraphBuilder::default()
    }

    /// A builder that appends to a graph.
    pub fn of(graph: Graph) -> GraphBuilder {
        GraphBuilder {
            streams: graph.next_stream(),
            names: Names::of(&graph),
            graph,
            ..GraphBuilder::default()
        }
    }

    /// An empty graph whose first stream of random numbers is this one.
    pub(crate) fn from_stream(streams: u32) -> GraphBuilder {
        GraphBuilder {
            streams,
            ..GraphBuilder::default()
        }
    }

    /// The graph so far.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The finished graph, which is well formed.
    pub fn finish(self) -> Graph {
        self.graph
    }

    /// The type of a value.
    ///
    /// # Errors
    /// If there is no such value.
    pub fn ty(&self, value: ValueId) -> Result<&Type> {
        self.graph.check_defined(&[value])?;
        Ok(self.graph.ty(value))
    }

    /// Declares an input that the caller of every run provides.
    ///
    /// # Errors
    /// If there is an input or state of this name, or its size cannot be counted.
    pub fn input(&mut self, name: impl Into<String>, dtype: DType, shape: &[usize]) -> Result<ValueId> {
        self.declare(name.into(), InputKind::Data, Type::new(dtype, shape))
    }

    /// Declares a state that is kept between runs: a parameter or a value of the optimizer.
    ///
    /// # Errors
    /// If there is an input or state of this name, or its size cannot be counted.
    pub fn state(&mut self, name: impl Into<String>, dtype: DType, shape: &[usize]) -> Result<ValueId> {
        self.declare(name.into(), InputKind::State, Type::new(dtype, shape))
    }

    /// Declares an input or a state.
    pub(crate) fn declare(&mut self, name: String, kind: InputKind, ty: Type) -> Result<ValueId> {
        if self.names.inputs.contains(&name) {
            return Err(Error::user(format!("the graph already has an input called `{name}`")));
        }
        let value = self.graph.add_input(&name, kind, ty)?;
        self.names.inputs.insert(name);
        Ok(value)
    }

    /// Applies an operation in the current phase and scope and returns its outputs.
    ///
    /// # Errors
    /// The operation's sentence when the inputs do not fit it; an input that does not exist.
    pub fn push(&mut self, op: Arc<dyn Op>, inputs: &[ValueId]) -> Result<Vec<ValueId>> {
        self.graph.add_node(op, inputs, self.phase, self.scope.clone())
    }

    /// [`GraphBuilder::push`] for the operation of this name with attributes in the text form, such as `axis=1,
    /// start=0, len=2`.
    ///
    /// # Errors
    /// An operation that the registry does not know; an attribute that is missing or wrong; the errors of
    /// [`GraphBuilder::push`].
    pub fn push_named(
        &mut self,
        registry: &Registry,
        name: &str,
        attrs: &str,
        inputs: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let attrs: Attrs = attrs.parse().map_err(|e: Error| e.at(name))?;
        let outputs = self.push(registry.build(name, &attrs)?, inputs)?;
        if let Some(stream) = attrs.int("stream").ok().and_then(|stream| u32::try_from(stream).ok()) {
            self.streams = self.streams.max(stream.saturating_add(1));
        }
        Ok(outputs)
    }

    /// Names a result of the graph.
    ///
    /// # Errors
    /// If there is an output of this name, or no such value.
    pub fn output(&mut self, name: impl Into<String>, value: ValueId) -> Result<()> {
        let name = name.into();
        self.graph.check_defined(&[value])?;
        if !self.names.outputs.insert(name.clone()) {
            return Err(Error::user(format!("the graph already has an output called `{name}`")));
        }
        self.graph.outputs.push(Output { name, value });
        Ok(())
    }

    /// Assigns a state: after a run, `target` holds `value`.
    ///
    /// # Errors
    /// If `target` is no state, is assigned already, the types differ, or there is no such value.
    pub fn assign(&mut self, target: ValueId, value: ValueId) -> Result<()> {
        self.graph.check_defined(&[target, value])?;
        let Some(input) = self.graph.input(target) else {
            return Err(Error::user("only a state can be assigned"));
        };
        let (name, old, new) = (&input.name, self.graph.ty(target), self.graph.ty(value));
        if input.kind != InputKind::State {
            return Err(Error::user(format!(
                "the input `{name}` is data, only a state can be assigned"
            )));
        }
        if old != new {
            return Err(Error::user(format!(
                "the state `{name}` of type {old} cannot hold a {new}"
            )));
        }
        if !self.names.assigned.insert(target) {
            return Err(Error::user(format!("the state `{name}` is assigned twice")));
        }
        self.graph.assigns.push(Assign { target, value });
        Ok(())
    }

    /// Takes back the assignment of a state and returns the value; none of a state that is not assigned.
    pub(crate) fn take_assigned(&mut self, target: ValueId) -> Option<ValueId> {
        self.names.assigned.remove(&target).then_some(())?;
        let place = self.graph.assigns.iter().position(|assign| assign.target == target)?;
        Some(self.graph.assigns.remove(place).value)
    }

    /// The phase of the nodes that are appended.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Sets the phase of the nodes that are appended from now on, and returns the one before.
    pub fn set_phase(&mut self, phase: Phase) -> Phase {
        std::mem::replace(&mut self.phase, phase)
    }

    /// The scope of the nodes that are appended, such as `h.0.mlp`; empty at the top.
    pub fn scope(&self) -> &Arc<str> {
        &self.scope
    }

    /// Sets the scope of the nodes that are appended from now on, and returns the one before.
    pub fn set_scope(&mut self, scope: impl Into<Arc<str>>) -> Arc<str> {
        std::mem::replace(&mut self.scope, scope.into())
    }

    /// The number of a stream of random bits that no other operation of this graph draws from.
    ///
    /// # Errors
    /// If all streams are drawn from.
    pub fn new_stream(&mut self) -> Result<u32> {
        let stream = self.streams;
        self.streams = stream
            .checked_add(1)
            .ok_or_else(|| Error::user("the graph has no stream of random bits left"))?;
        Ok(stream)
    }

    /// The next stream of random bits.
    pub(crate) fn streams(&self) -> u32 {
        self.streams
    }

    /// Sets the next stream of random bits.
    pub(crate) fn set_streams(&mut self, streams: u32) {
        self.streams = streams;
    }

    /// The point that the construction has reached.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            nodes: self.graph.nodes.len(),
            values: self.graph.values.len(),
            phase: self.phase,
            scope: self.scope.clone(),
            streams: self.streams,
        }
    }

    /// Takes back the nodes that were appended since a mark; no input, output or assignment was.
    pub(crate) fn take_back(&mut self, mark: Mark) {
        self.graph.nodes.truncate(mark.nodes);
        self.graph.values.truncate(mark.values);
        self.phase = mark.phase;
        self.scope = mark.scope;
        self.streams = mark.streams;
    }
}
