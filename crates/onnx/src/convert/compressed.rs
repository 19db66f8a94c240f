//! The nodes that values without their last element need: for CRMSNorm, and where a reader needs all elements.

use std::collections::{BTreeMap, BTreeSet};

use lessen_base::Result;
use lessen_graph::ops::Broadcast;
use lessen_graph::{NodeId, ValueId};
use lessen_rewrite::{Lines, NodeInput};

use super::Converter;
use super::attributes::{float_tensor, int, ints};
use crate::edit::{Edits, node};
use crate::element::Element;
use crate::proto::NodeProto;
use crate::tensor::Tensor;

impl Converter<'_> {
    /// Enters what follows from values that lack their last element, norms apart.
    pub(super) fn compress(&self, edits: &mut Edits<'_>) -> Result<()> {
        edits.has_other_extents = !self.conversion.compressed.is_empty();
        let mut axes: BTreeMap<ValueId, BTreeSet<usize>> = BTreeMap::new();
        for runs in &self.conversion.compressed {
            axes.entry(runs.value).or_default().insert(runs.axis);
        }
        for (&value, axes) in &axes {
            for &name in self.names.all(value) {
                self.keep_shapes(value, name, axes, edits)?;
                self.shorten(value, name, axes, edits);
            }
        }
        self.complete(edits)?;
        for (at, &axis) in &self.conversion.compresses {
            let value = self.graph.nodes[at.node.index()].inputs[at.input];
            let Some(runs) = self.with_name(Lines::of(value, axis)) else {
                continue;
            };
            let name = self.name(runs.value)?.to_string();
            let short = format!("{name}/compressed");
            if edits.made.insert(short.clone()) {
                let slice = self.without_last(&name, &short, runs, edits);
                self.put_behind(&name, vec![slice], edits);
            }
            if !self.is_norm(at.node) {
                self.rename(runs.value, *at, &short, edits)?;
            }
        }
        Ok(())
    }

    /// The value with a name that runs are broadcast from by their reader, and its axis; none where that has no such
    /// axis, or one of extent 1, so that the reader broadcasts it to any extent.
    fn with_name(&self, runs: Lines) -> Option<Lines> {
        let shape = |value: ValueId| &self.graph.ty(value).shape;
        if self.names.first(runs.value).is_some() {
            return Some(runs);
        }
        let node = &self.graph.nodes[self.graph.producer(runs.value)?.index()];
        let &from = node.inputs.first().filter(|_| node.op.is::<Broadcast>())?;
        let axis = (runs.axis + shape(from).len()).checked_sub(shape(runs.value).len())?;
        let is_whole = shape(from)[axis] == shape(runs.value)[runs.axis];
        is_whole.then(|| self.with_name(Lines::of(from, axis))).flatten()
    }

    fn is_norm(&self, node: NodeId) -> bool {
        self.conversion.converted.iter().any(|norm| norm.node == node)
    }

    /// Lets nodes that read the extents of a value see its old ones.
    fn keep_shapes(&self, value: ValueId, name: &str, axes: &BTreeSet<usize>, edits: &mut Edits<'_>) -> Result<()> {
        let rank = self.graph.ty(value).rank();
        for (position, reader) in self.model.nodes.iter().enumerate() {
            let reads = reader.proto.input.iter().any(|input| input == name);
            if !reads || !["Shape", "Size"].contains(&reader.proto.op_type.as_str()) {
                continue;
            }
            if reader.proto.op_type == "Size" {
                let sentence = format!("the size of `{name}` is read, which compression changes; convert to rmsnorm");
                return Err(self.model.error(&sentence));
            }
            let at = |attribute: &str, default: i64| {
                let axis = reader.attribute(attribute).map_or(default, |attribute| attribute.i);
                (if axis < 0 { axis + rank as i64 } else { axis }).clamp(0, rank as i64) as usize
            };
            let (start, end) = (at("start", 0), at("end", rank as i64));
            let more: Vec<f64> = (start..end)
                .map(|axis| f64::from(u8::from(axes.contains(&axis))))
                .collect();
            if more.iter().all(|x| *x == 0.0) {
                continue;
            }
            let output = &reader.proto.output[0];
            let (short, added) = (format!("{output}/compressed"), format!("{output}/more"));
            edits
                .added
                .push(Tensor::held(&added, &[more.len()], Element::Int(8), &more));
            let mut shape = reader.proto.clone();
            shape.output[0].clone_from(&short);
            let sum = node("Add", &added, &[&short, &added], output);
            edits.replaced.insert(position, vec![shape, sum]);
        }
        Ok(())
    }

    /// Lets a node that gives a value say its new extents, where it says extents at all.
    fn shorten(&self, value: ValueId, name: &str, axes: &BTreeSet<usize>, edits: &mut Edits<'_>) {
        let Some(position) = self.names.definition(name) else {
            return;
        };
        let giver = &self.model.nodes[position];
        if !["Reshape", "Expand"].contains(&giver.proto.op_type.as_str()) {
            return;
        }
        let Some(shape) = giver.input(1) else {
            return;
        };
        let said = self.imported.known.get(shape).map_or(&[][..], |array| &array.data);
        let extents = &self.graph.ty(value).shape;
        let first = extents.len().saturating_sub(said.len());
        let less: Vec<f64> = (0..said.len())
            .map(|i| {
                let axis = first + i;
                let is_said = axes.contains(&axis) && said[i] == extents[axis] as f64 && said[i] != 1.0;
                if is_said { -1.0 } else { 0.0 }
            })
            .collect();
        if less.iter().all(|x| *x == 0.0) {
            return;
        }
        let (fewer, new) = (format!("{name}/fewer"), format!("{name}/shape"));
        edits
            .added
            .push(Tensor::held(&fewer, &[less.len()], Element::Int(8), &less));
        let sum = node("Add", &new, &[shape, &fewer], &new);
        edits.before.entry(position).or_default().push(sum);
        edits.renamed.insert((position, 1), new);
    }

    /// Gives all elements of a value to the uses that need them.
    fn complete(&self, edits: &mut Edits<'_>) -> Result<()> {
        for (i, reader) in self.graph.nodes.iter().enumerate() {
            let id = NodeId(i as u32);
            for (input, &value) in reader.inputs.iter().enumerate() {
                let at = NodeInput { node: id, input };
                if self.conversion.reads_compressed.contains(&at) || self.reads_other_form(value, at) {
                    continue;
                }
                let all = Lines::of(value, 0)..=Lines::of(value, usize::MAX);
                let Some(&runs) = self.conversion.compressed.range(all).next_back() else {
                    continue;
                };
                let name = self.name(value)?.to_string();
                let whole = format!("{name}/whole");
                if edits.made.insert(whole.clone()) {
                    let nodes = self.completed(&name, &whole, runs, edits);
                    self.put_behind(&name, nodes, edits);
                }
                self.rename(value, at, &whole, edits)?;
            }
        }
        Ok(())
    }

    /// Whether a node input reads a value that is made for it: recentred, or compressed only there.
    fn reads_other_form(&self, value: ValueId, at: NodeInput) -> bool {
        let recentred = &self.conversion.recentred;
        let is_recentred = recentred
            .iter()
            .any(|(runs, uses)| runs.value == value && uses.contains(&at));
        is_recentred || self.conversion.compresses.contains_key(&at)
    }

    /// A slice that leaves out the last element of runs.
    pub(super) fn without_last(&self, x: &str, short: &str, runs: Lines, edits: &mut Edits<'_>) -> NodeProto {
        let mut constant = |part: &str, number: f64| {
            let name = format!("{short}/{part}");
            edits.added.push(Tensor::held(&name, &[1], Element::Int(8), &[number]));
            name
        };
        let (from, to, axis) = (
            constant("from", 0.0),
            constant("to", -1.0),
            constant("axis", runs.axis as f64),
        );
        node("Slice", short, &[x, &from, &to, &axis], short)
    }

    /// Nodes that add the last element to runs, which makes their sum zero.
    pub(super) fn completed(&self, x: &str, whole: &str, runs: Lines, edits: &mut Edits<'_>) -> Vec<NodeProto> {
        let (sum, last) = (format!("{whole}/sum"), format!("{whole}/last"));
        let reduce = self.reduced("ReduceSum", 13, x, &sum, runs.axis as i64, edits);
        let mut join = node("Concat", whole, &[x, &last], whole);
        join.attribute.push(int("axis", runs.axis as i64));
        vec![reduce, node("Neg", &last, &[&sum], &last), join]
    }

    /// A reduction over an axis, which is an input of the operator from a version on, and an attribute before.
    pub(super) fn reduced(
        &self,
        op_type: &str,
        from_version: i64,
        x: &str,
        output: &str,
        axis: i64,
        edits: &mut Edits<'_>,
    ) -> NodeProto {
        let mut reduce = node(op_type, output, &[x], output);
        reduce.attribute.push(int("keepdims", 1));
        if self.model.opset("").is_some_and(|version| version >= from_version) {
            let axes = format!("{output}/axes");
            edits
                .added
                .push(Tensor::held(&axes, &[1], Element::Int(8), &[axis as f64]));
            reduce.input.push(axes);
        } else {
            reduce.attribute.push(ints("axes", vec![axis]));
        }
        reduce
    }

    /// The nodes of a norm of runs without their last element (equation 3.5), whose result is as long.
    pub(super) fn compressed_norm(
        &self,
        x: &str,
        y: &str,
        width: usize,
        eps: f64,
        element: Element,
        edits: &mut Edits<'_>,
    ) -> Vec<NodeProto> {
        let part = |part: &str| format!("{y}/{part}");
        let [sum, squared, squares, all, mean, safe, deviation] =
            ["sum", "squared", "squares", "all", "mean", "safe", "deviation"].map(part);
        let (share, least) = (part("share"), part("eps"));
        edits.added.push(float_tensor(&share, 1.0 / width as f64, element));
        edits.added.push(float_tensor(&least, eps, element));
        vec![
            self.reduced("ReduceSum", 13, x, &sum, -1, edits),
            node("Mul", &squared, &[&sum, &sum], &squared),
            self.reduced("ReduceSumSquare", 18, x, &squares, -1, edits),
            node("Add", &all, &[&squares, &squared], &all),
            node("Mul", &mean, &[&all, &share], &mean),
            node("Add", &safe, &[&mean, &least], &safe),
            node("Sqrt", &deviation, &[&safe], &deviation),
            node("Div", y, &[x, &deviation], y),
        ]
    }
}
