//! Writes the converted graph.

use std::collections::{BTreeMap, HashMap};

use lessen_graph::ops::Full;
use lessen_graph::{Graph, InputKind, Node, NodeId, Tensor, Trace, TraceRef, Type, ValueId, concat};

use super::conversion::{Conversion, ConvertedNorm, NormShift, NormTarget, when_centred};
use super::facts::{Lines, NodeInput};

/// Builds the converted graph, without states that nothing reads any more.
pub(crate) fn rewritten(graph: &Graph, conversion: &Conversion) -> Graph {
    let trace = Trace::new();
    let mut rewriting = Rewriting {
        trace: *trace,
        graph,
        conversion,
        converted: conversion.converted.iter().map(|norm| (norm.node, norm)).collect(),
        axes: conversion
            .compressed
            .iter()
            .map(|lines| (lines.value, lines.axis))
            .collect(),
        values: vec![None; graph.values.len()],
        made: HashMap::new(),
    };
    rewriting.inputs();
    for (i, node) in graph.nodes.iter().enumerate() {
        trace.in_phase(node.phase, || {
            let _inside = trace.enter_scope(&node.scope);
            rewriting.node(NodeId(i as u32), node);
        });
    }
    for output in &graph.outputs {
        trace.output(&output.name, rewriting.get(output.value));
    }
    for assign in &graph.assigns {
        trace.assign(rewriting.get(assign.target), rewriting.get(assign.value));
    }
    drop(rewriting);
    trace.finish()
}

/// How a node input reads a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Replacement {
    Recentred,
    Compressed,
    Completed,
}

struct Rewriting<'a> {
    trace: TraceRef,
    graph: &'a Graph,
    conversion: &'a Conversion,
    converted: BTreeMap<NodeId, &'a ConvertedNorm>,
    /// For each compressed value the axis along which it lacks its last element; a weight may lack one along each of
    /// two axes.
    axes: BTreeMap<ValueId, usize>,
    values: Vec<Option<Tensor>>,
    /// Replacements of values, each made once.
    made: HashMap<(Lines, Replacement), Tensor>,
}

impl Rewriting<'_> {
    /// Declares the inputs that are read.
    fn inputs(&mut self) {
        let is_read = self.read_states();
        for input in &self.graph.inputs {
            let ty = self.graph.ty(input.value);
            let value = match input.kind {
                InputKind::Data => self.trace.input(&input.name, ty.dtype, &ty.shape),
                InputKind::State if is_read[input.value.index()] => {
                    let shape = self.conversion.parameters.shape(input.value, &ty.shape);
                    let state = self.trace.state(&input.name, ty.dtype, &shape);
                    self.less_last(input.value, state)
                }
                InputKind::State => continue,
            };
            self.values[input.value.index()] = Some(value);
        }
    }

    /// A state that keeps its shape, as readers of compressed values see it.
    fn less_last(&mut self, value: ValueId, state: Tensor) -> Tensor {
        let of_value = Lines::of(value, 0)..=Lines::of(value, usize::MAX);
        let all = self
            .conversion
            .compressed
            .range(of_value)
            .filter(|_| self.conversion.keeps_states);
        all.fold(state, |part, &lines| {
            self.made.insert((lines, Replacement::Completed), state);
            compressed(part, lines.axis)
        })
    }

    /// For each value whether a result depends on it after the conversion.
    fn read_states(&self) -> Vec<bool> {
        let mut is_read = vec![false; self.graph.values.len()];
        let outputs = self.graph.outputs.iter().map(|output| output.value);
        let assigned = self
            .graph
            .assigns
            .iter()
            .flat_map(|assign| [assign.target, assign.value]);
        outputs.chain(assigned).for_each(|value| is_read[value.index()] = true);
        for (i, node) in self.graph.nodes.iter().enumerate().rev() {
            if !node.outputs.iter().any(|output| is_read[output.index()]) {
                continue;
            }
            let id = NodeId(i as u32);
            let inputs = match (self.converted.get(&id), self.conversion.absorbed.get(&id)) {
                (_, Some(&kept)) => vec![kept],
                (Some(norm), _) => self.inputs_of(node, norm),
                (None, None) => node.inputs.clone(),
            };
            inputs.iter().for_each(|value| is_read[value.index()] = true);
        }
        is_read
    }

    /// The values that a converted norm reads.
    fn inputs_of(&self, node: &Node, norm: &ConvertedNorm) -> Vec<ValueId> {
        let centred = when_centred(self.graph, node).expect("a norm");
        let mut inputs = vec![node.inputs[0]];
        if !norm.is_compressed {
            inputs.push(node.inputs[centred.scale]);
        }
        if norm.shift == NormShift::Added {
            inputs.push(node.inputs[centred.shift]);
        }
        inputs
    }

    fn get(&self, value: ValueId) -> Tensor {
        self.values[value.index()].expect("defined before it is read")
    }

    fn set(&mut self, value: ValueId, tensor: Tensor) {
        self.values[value.index()] = Some(tensor);
    }

    fn node(&mut self, id: NodeId, node: &Node) {
        let is_needed = |value: &ValueId| self.values[value.index()].is_some();
        if let Some(&kept) = self.conversion.absorbed.get(&id) {
            self.set(node.outputs[0], self.get(kept));
        } else if let Some(&norm) = self.converted.get(&id) {
            let result = self.norm(id, node, norm);
            self.set(node.outputs[0], result);
        } else if node.inputs.iter().all(is_needed) {
            let inputs: Vec<Tensor> = (0..node.inputs.len())
                .map(|input| self.operand(NodeInput { node: id, input }))
                .collect();
            let op = self.resized(node);
            for (&old, new) in node.outputs.iter().zip(self.trace.apply_shared(op, &inputs)) {
                self.set(old, new);
            }
        }
    }

    /// The operation of a node, resized where its result lacks an element along an axis.
    fn resized(&self, node: &Node) -> std::sync::Arc<dyn lessen_graph::Op> {
        let value = node.outputs[0];
        let mut op = node.op.clone();
        let all = self
            .conversion
            .compressed
            .range(Lines::of(value, 0)..=Lines::of(value, usize::MAX));
        for lines in all {
            let extent = self.graph.ty(value).shape[lines.axis] - 1;
            op = op.with_extent(lines.axis, extent).unwrap_or(op);
        }
        op
    }

    /// The value that a node input reads.
    fn operand(&mut self, at: NodeInput) -> Tensor {
        let value = self.graph.nodes[at.node.index()].inputs[at.input];
        let of_value = Lines::of(value, 0)..=Lines::of(value, usize::MAX);
        let conversion = self.conversion;
        let recentred = conversion
            .recentred
            .range(of_value)
            .find(|(_, uses)| uses.contains(&at));
        if let Some((&lines, _)) = recentred {
            return self.replacement(lines, Replacement::Recentred);
        }
        if let Some(&axis) = conversion.compresses.get(&at) {
            return self.replacement(Lines::of(value, axis), Replacement::Compressed);
        }
        match self.axes.get(&value) {
            Some(&axis) if !conversion.reads_compressed.contains(&at) => {
                self.replacement(Lines::of(value, axis), Replacement::Completed)
            }
            _ => self.get(value),
        }
    }

    fn replacement(&mut self, lines: Lines, replacement: Replacement) -> Tensor {
        if let Some(&made) = self.made.get(&(lines, replacement)) {
            return made;
        }
        let (x, axis) = (self.get(lines.value), lines.axis);
        let made = match replacement {
            Replacement::Recentred => {
                let centred = recentred(x, axis);
                match self.conversion.target {
                    NormTarget::Rms => centred,
                    NormTarget::Crms => compressed(centred, axis),
                }
            }
            Replacement::Compressed => compressed(x, axis),
            Replacement::Completed => completed(x, axis),
        };
        self.made.insert((lines, replacement), made);
        made
    }

    /// The result of a converted norm.
    fn norm(&mut self, id: NodeId, node: &Node, norm: &ConvertedNorm) -> Tensor {
        let centred = when_centred(self.graph, node).expect("a norm");
        let x = self.operand(NodeInput { node: id, input: 0 });
        let scale = |this: &Self| this.get(node.inputs[centred.scale]);
        let y = match self.conversion.target {
            NormTarget::Rms => self.trace.apply_shared(centred.norm, &[x, scale(self)])[0],
            NormTarget::Crms => {
                let ty = Type::new(x.dtype(), &[x.ty().last()]);
                let ones = self.trace.apply1(Full { ty, value: 1.0 }, &[]);
                let y = self.trace.apply_shared(centred.compressed, &[x, ones])[0];
                if norm.is_compressed {
                    y
                } else {
                    completed(y, y.rank() - 1) * scale(self)
                }
            }
        };
        match norm.shift {
            NormShift::Absorbed => y,
            NormShift::Added => y + self.get(node.inputs[centred.shift]),
        }
    }
}

/// The sum along an axis, which keeps an extent of 1.
fn sum_along(x: Tensor, axis: usize) -> Tensor {
    let mut shape = x.shape();
    shape[axis] = 1;
    x.sum_axes(&[axis]).reshape(&shape)
}

/// The value minus its mean along an axis.
fn recentred(x: Tensor, axis: usize) -> Tensor {
    let extent = x.shape()[axis] as f64;
    x - sum_along(x, axis) * (1.0 / extent)
}

/// All but the last element along an axis.
fn compressed(x: Tensor, axis: usize) -> Tensor {
    x.slice(axis as isize, 0, x.shape()[axis] - 1)
}

/// The value with one more element along an axis, which makes its sum zero.
fn completed(x: Tensor, axis: usize) -> Tensor {
    concat(&[x, -sum_along(x, axis)], axis as isize)
}
