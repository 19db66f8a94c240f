//! The report of a conversion: norms that it found, changed and left.

use lessen_graph::{InputKind, ValueId};
use lessen_rewrite::{NormShift, Obstacle, UnconvertedNorm};

use super::Converter;
use lessen_onnx::import::operator;
use lessen_onnx::proto::NodeProto;

/// A norm that is left as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftAsItIs {
    /// The name of its result.
    pub norm: String,
    /// The obstacle that stopped the conversion.
    pub why: String,
}

/// The report of a conversion: norms that it found, changed and left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Names of the results of norms that are converted.
    pub converted: Vec<String>,
    /// Norms that are left.
    pub left: Vec<LeftAsItIs>,
    /// Parameters that are changed ahead of time.
    pub changed: usize,
    /// Values from which a mean is subtracted, by name.
    pub recentred: Vec<String>,
    /// Norms whose shift is in the biases of the layers that read them.
    pub folded: usize,
    /// Operators that are not known, each once.
    pub missing: Vec<String>,
    /// Nodes of the model that are not known, each with the reason.
    pub unknown: Vec<(String, String)>,
    /// Elements of all parameters before and after.
    pub parameters: [usize; 2],
}

impl Converter<'_> {
    /// What the conversion finds, changes and leaves.
    pub fn report(&self) -> Report {
        let conversion = &self.conversion;
        let name = |value: ValueId| self.shown(value);
        let result = |node: lessen_graph::NodeId| name(self.graph.nodes[node.index()].outputs[0]);
        let states = self.graph.inputs.iter().filter(|input| input.kind == InputKind::State);
        let count = |is_new: bool| -> usize {
            let size = |value: ValueId| {
                let shape = &self.graph.ty(value).shape;
                if is_new {
                    conversion.parameters.shape(value, shape).iter().product::<usize>()
                } else {
                    shape.iter().product()
                }
            };
            let states = states
                .clone()
                .filter(|input| self.model.initializers.contains_key(&input.name));
            states.map(|input| size(input.value)).sum()
        };
        let opaque = &self.imported.opaque;
        Report {
            converted: conversion.converted.iter().map(|norm| result(norm.node)).collect(),
            left: conversion.unconverted.iter().map(|left| self.left(left)).collect(),
            changed: conversion.parameters.iter().count(),
            recentred: conversion.recentred.keys().map(|runs| name(runs.value)).collect(),
            folded: conversion
                .converted
                .iter()
                .filter(|norm| norm.shift == NormShift::Absorbed)
                .count(),
            missing: self.missing(),
            unknown: opaque
                .iter()
                .map(|(node, why)| (self.model.nodes[*node].shown(), why.clone()))
                .collect(),
            parameters: [count(false), count(true)],
        }
    }

    /// The operators of the model that are not known, each once, in the order of its nodes.
    fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let nodes = self.imported.opaque.iter().map(|(node, _)| &self.model.nodes[*node]);
        for node in nodes.filter(|node| operator(node).is_err()) {
            let NodeProto { op_type, domain, .. } = &node.proto;
            let shown = if domain.is_empty() {
                op_type.clone()
            } else {
                format!("{op_type} of {domain}")
            };
            if !missing.contains(&shown) {
                missing.push(shown);
            }
        }
        missing
    }

    /// How people call a value: its name in the model.
    fn shown(&self, value: ValueId) -> String {
        let input = self.graph.input(value).map(|input| input.name.clone());
        let name = self.names.first(value).map(str::to_string).or(input);
        let node = || self.names.node(self.graph.producer(value)?);
        let inner = || node().map(|node| format!("a value of {}", self.model.nodes[node].shown()));
        name.or_else(inner).unwrap_or_else(|| format!("%{}", value.0))
    }

    /// The node that is not known and reads a value that is no output of the model.
    fn opaque_reader(&self, value: ValueId) -> Option<String> {
        let names = self.names.all(value);
        if self
            .model
            .outputs
            .iter()
            .any(|output| names.contains(&output.name.as_str()))
        {
            return None;
        }
        let nodes = self.imported.opaque.iter().map(|(node, _)| &self.model.nodes[*node]);
        let mut readers = nodes.filter(|node| node.reads().any(|name| names.contains(&name)));
        readers.next().map(|node| node.shown())
    }

    fn left(&self, left: &UnconvertedNorm) -> LeftAsItIs {
        let norm = self.shown(self.graph.nodes[left.node.index()].outputs[0]);
        let reasons: Vec<String> = left
            .obstacles
            .iter()
            .map(|&(value, stop)| {
                let value = self.shown(value);
                match stop {
                    Obstacle::Node(reader) => match self.names.node(reader) {
                        Some(reader) => format!("`{value}` also leads to {}", self.model.nodes[reader].shown()),
                        None => format!("`{value}` also leads to another operation"),
                    },
                    Obstacle::Result(result) => match self.opaque_reader(result) {
                        Some(reader) => format!("`{value}` also leads to {reader}, which is not known"),
                        None if self.shown(result) == value => format!("`{value}` is an output"),
                        None => format!("`{value}` also leads to the output `{}`", self.shown(result)),
                    },
                    Obstacle::Producer => format!("`{value}` may have any mean"),
                    Obstacle::Statistic => format!("a statistic of `{value}` is read as well"),
                }
            })
            .collect();
        LeftAsItIs {
            norm,
            why: reasons.join(", "),
        }
    }
}
