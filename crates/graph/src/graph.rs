//! The graph: an append-only list of nodes in static single assignment form.

use lessen_base::{Error, Result};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::op::Op;
use crate::types::Type;

/// A value of a graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueId(pub u32);

/// A node of a graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u32);

impl ValueId {
    /// The index into [`Graph::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// The index into [`Graph::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The part of a training step that a node belongs to. It changes no result; schedules and reports read it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Phase {
    /// Written by the model.
    #[default]
    Forward,
    /// Appended by differentiation.
    Backward,
    /// The update of parameters and of the optimizer's state.
    Update,
}

/// Definition of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Def {
    /// The graph's input of this position in [`Graph::inputs`].
    Input(usize),
    /// An output of a node, by its position.
    Node(NodeId, usize),
}

/// A value: its type and where it comes from.
#[derive(Clone, Debug)]
pub struct Value {
    /// Dtype and shape.
    pub ty: Type,
    /// Definition.
    pub def: Def,
}

/// An operation applied to values.
#[derive(Clone, Debug)]
pub struct Node {
    /// The operation.
    pub op: Arc<dyn Op>,
    /// Values that it reads.
    pub inputs: Vec<ValueId>,
    /// Values that it defines.
    pub outputs: Vec<ValueId>,
    /// Part of the step.
    pub phase: Phase,
    /// The place in the model, such as `h.0.mlp`; empty at the top.
    pub scope: Arc<str>,
    /// The backward part of one block, by its number. No other stage reads the values that it recomputes, and a
    /// schedule runs stages one after the other. 0 unless a planner has cut the backward phase. It changes no result.
    pub stage: u32,
}

/// Who provides an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputKind {
    /// The caller of every run.
    Data,
    /// The run before: parameters and the optimizer's state. Only these can be assigned.
    State,
}

/// An input of the graph.
#[derive(Clone, Debug)]
pub struct Input {
    /// Unique name.
    pub name: String,
    /// Data or state.
    pub kind: InputKind,
    /// The value that it defines.
    pub value: ValueId,
}

/// A named result of the graph.
#[derive(Clone, Debug)]
pub struct Output {
    /// Unique name.
    pub name: String,
    /// The value.
    pub value: ValueId,
}

/// After a run, the state input `target` holds `value`. Every reader of `target` inside the run sees the old
/// value.
#[derive(Clone, Copy, Debug)]
pub struct Assign {
    /// A state input's value.
    pub target: ValueId,
    /// Its new value, of the same type.
    pub value: ValueId,
}

/// A program: inputs, nodes in an order in which each reads only values that are defined before it, outputs and
/// assignments.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Nodes in a valid order.
    pub nodes: Vec<Node>,
    /// All values.
    pub values: Vec<Value>,
    /// Inputs.
    pub inputs: Vec<Input>,
    /// Outputs.
    pub outputs: Vec<Output>,
    /// Assignments of state.
    pub assigns: Vec<Assign>,
    /// The type of the operation of each name that [`Graph::add_node`] has met.
    pub(crate) op_types: Arc<HashMap<&'static str, TypeId>>,
    /// The first answer of an operation that does not fit its types, of all graphs that were made of this one.
    pub(crate) faults: Arc<OnceLock<Error>>,
}

impl Graph {
    /// A graph without nodes and values that knows the names and the faults of another graph's operations.
    pub fn with_operations_of(other: &Graph) -> Graph {
        Graph {
            op_types: other.op_types.clone(),
            faults: other.faults.clone(),
            ..Graph::default()
        }
    }

    /// Adds an input. Its name must be new, which [`verify`](crate::verify) checks.
    ///
    /// # Errors
    /// A sentence that names the input, if its size cannot be counted.
    pub fn add_input(&mut self, name: &str, kind: InputKind, ty: Type) -> Result<ValueId> {
        if !ty.fits() {
            return Err(Error::user(format!("the input `{name}` of type {ty} is too large")));
        }
        let value = self.next_value()?;
        self.values.push(Value {
            ty,
            def: Def::Input(self.inputs.len()),
        });
        self.inputs.push(Input {
            name: name.to_string(),
            kind,
            value,
        });
        Ok(value)
    }

    /// The number of the value that is added next.
    fn next_value(&self) -> Result<ValueId> {
        let number = u32::try_from(self.values.len());
        number
            .map(ValueId)
            .map_err(|_| Error::user("a graph has at most 2^32 values"))
    }

    /// Checks that values exist.
    pub(crate) fn check_defined(&self, values: &[ValueId]) -> Result<()> {
        match values.iter().find(|value| value.index() >= self.values.len()) {
            Some(value) => Err(Error::user(format!("the graph has no value %{}", value.0))),
            None => Ok(()),
        }
    }

    /// Appends a node, with the output types of the operation's type rule.
    ///
    /// # Errors
    /// The operation's own sentence when the inputs do not fit it; a sentence when an input does not exist, when there
    /// are no outputs, or one whose size cannot be counted, or when the operation has the name of a standard operation
    /// or of another one of this graph.
    pub fn add_node(
        &mut self,
        op: Arc<dyn Op>,
        inputs: &[ValueId],
        phase: Phase,
        scope: Arc<str>,
    ) -> Result<Vec<ValueId>> {
        self.check_name(op.as_ref())?;
        self.check_defined(inputs)?;
        let types: Vec<Type> = inputs.iter().map(|&v| self.ty(v).clone()).collect();
        let out_types = op.infer_checked(&types).map_err(|e| e.at(op.name()))?;
        self.next_value()?;
        Ok(self.append(op, inputs, out_types, phase, scope).to_vec())
    }

    /// Appends a copy of a node of another graph that reads these values. Where they have the types of the node's own
    /// inputs, its outputs keep their types, and the type rule is not asked again. Returns the copy's outputs.
    ///
    /// # Errors
    /// As [`Graph::add_node`].
    pub fn copy_node(&mut self, from: &Graph, node: &Node, inputs: &[ValueId], phase: Phase) -> Result<&[ValueId]> {
        self.check_defined(inputs)?;
        let same = |(&own, &other): (&ValueId, &ValueId)| self.ty(own) == from.ty(other);
        let keeps_types = inputs.len() == node.inputs.len() && inputs.iter().zip(&node.inputs).all(same);
        if keeps_types {
            if !Arc::ptr_eq(&self.op_types, &from.op_types) {
                self.check_name(node.op.as_ref())?;
            }
            self.next_value()?;
            let types = from.output_types(node);
            return Ok(self.append(node.op.clone(), inputs, types, phase, node.scope.clone()));
        }
        self.add_node(node.op.clone(), inputs, phase, node.scope.clone())?;
        Ok(&self.nodes[self.nodes.len() - 1].outputs)
    }

    fn append(
        &mut self,
        op: Arc<dyn Op>,
        inputs: &[ValueId],
        out_types: Vec<Type>,
        phase: Phase,
        scope: Arc<str>,
    ) -> &[ValueId] {
        let node = NodeId(self.nodes.len() as u32);
        let first = self.values.len();
        self.values
            .extend(out_types.into_iter().enumerate().map(|(i, ty)| Value {
                ty,
                def: Def::Node(node, i),
            }));
        self.nodes.push(Node {
            op,
            inputs: inputs.to_vec(),
            outputs: (first..self.values.len()).map(|value| ValueId(value as u32)).collect(),
            phase,
            scope,
            stage: 0,
        });
        &self.nodes[node.index()].outputs
    }

    /// Checks that an operation's name belongs to no other type of operation.
    fn check_name(&mut self, op: &dyn Op) -> Result<()> {
        let (name, ty) = (op.name(), op.concrete_type());
        match self.op_types.get(name) {
            Some(&known) if known == ty => Ok(()),
            Some(_) => Err(Error::user(format!(
                "two types of operation in one graph are called `{name}`, one of them {op:?}; rename one"
            ))),
            None => {
                op.check_not_reserved()?;
                Arc::make_mut(&mut self.op_types).insert(name, ty);
                Ok(())
            }
        }
    }

    /// The first stream of random numbers that no operation of the graph draws from: 1 + the largest attribute
    /// `stream`.
    pub(crate) fn next_stream(&self) -> u32 {
        let streams = self.nodes.iter().filter_map(|node| node.op.attrs().int("stream").ok());
        let largest = streams.filter_map(|stream| u32::try_from(stream).ok()).max();
        largest.map_or(0, |largest| largest.saturating_add(1))
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &Type {
        &self.values[value.index()].ty
    }

    /// The node that defines a value; none for an input.
    pub fn producer(&self, value: ValueId) -> Option<NodeId> {
        match self.values[value.index()].def {
            Def::Node(node, _) => Some(node),
            Def::Input(_) => None,
        }
    }

    /// The input that a value is; none for a node's output.
    pub fn input(&self, value: ValueId) -> Option<&Input> {
        match self.values[value.index()].def {
            Def::Input(i) => Some(&self.inputs[i]),
            Def::Node(..) => None,
        }
    }

    /// For each value the nodes that read it, in order, each once.
    pub fn readers(&self) -> Vec<Vec<NodeId>> {
        let mut readers = vec![Vec::new(); self.values.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            let id = NodeId(i as u32);
            for &input in &node.inputs {
                let list: &mut Vec<NodeId> = &mut readers[input.index()];
                if list.last() != Some(&id) {
                    list.push(id);
                }
            }
        }
        readers
    }

    /// Types of a node's inputs.
    pub fn input_types(&self, node: &Node) -> Vec<Type> {
        node.inputs.iter().map(|&v| self.ty(v).clone()).collect()
    }

    /// Types of a node's outputs.
    pub fn output_types(&self, node: &Node) -> Vec<Type> {
        node.outputs.iter().map(|&v| self.ty(v).clone()).collect()
    }
}
