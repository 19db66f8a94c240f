//! Values without their last element, for CRMSNorm: what gives them, what reads them, and what needs all elements.

use std::collections::{BTreeMap, BTreeSet};

use lessen_base::{Error, Result};
use lessen_graph::ops::Broadcast;
use lessen_graph::{NodeId, ValueId};
use lessen_rewrite::Lines;

use super::Converter;
use super::draft::Draft;
use lessen_onnx::Element;
use lessen_onnx::Tensor;
use lessen_onnx::edit::node;

impl Converter<'_> {
    /// Enters what follows from values that lack their last element, norms apart.
    pub(super) fn compress(&self, draft: &mut Draft<'_>) -> Result<()> {
        let mut axes: BTreeMap<ValueId, BTreeSet<usize>> = BTreeMap::new();
        for runs in &self.conversion.compressed {
            axes.entry(runs.value).or_default().insert(runs.axis);
        }
        for &value in axes.keys() {
            let inner = draft.inner.get(&value).cloned();
            if let Some(name) = self.names.first(value) {
                let short = draft.edits.name(&format!("{name}/compressed"));
                draft.short.insert(value, short);
            } else if let Some(name) = inner {
                draft.short.insert(value, name);
            }
        }
        self.read_short(draft)?;
        for (&value, axes) in &axes {
            self.give_short(value, axes, draft);
            self.keep_shapes(value, axes, draft);
        }
        self.shorten_unread(&axes, draft);
        self.slice_operands(draft)
    }

    /// Lets the nodes that compute with values without their last element read these.
    fn read_short(&self, draft: &mut Draft<'_>) -> Result<()> {
        for &at in &self.conversion.reads_compressed {
            let value = self.graph.nodes[at.node.index()].inputs[at.input];
            let Some(short) = draft.short.get(&value).cloned() else {
                continue;
            };
            if !self.is_norm(at.node) {
                self.rename(value, at, &short, draft)?;
                draft.readers.extend(self.names.node(at.node));
            }
        }
        Ok(())
    }

    /// Gives a computed value without its last element a name of its own, and completes it under the old one.
    fn give_short(&self, value: ValueId, axes: &BTreeSet<usize>, draft: &mut Draft<'_>) {
        let (Some(name), Some(short)) = (self.names.first(value), draft.short.get(&value).cloned()) else {
            return;
        };
        draft.shortened.push((name.to_string(), short.clone()));
        let place = self
            .names
            .definition(name)
            .filter(|_| self.graph.input(value).is_none());
        let Some(position) = place else {
            return;
        };
        let outputs = &self.model.nodes[position].proto.output;
        if let Some(output) = outputs.iter().position(|output| output == name) {
            draft.edits.renamed_outputs.insert((position, output), short.clone());
        }
        self.shorten(value, (position, name), axes, draft);
        let axes: Vec<usize> = axes.iter().copied().collect();
        self.complete((&short, name), &axes, position, draft);
    }

    /// Appends nodes to one that complete a value along axes.
    fn complete(&self, (short, name): (&str, &str), axes: &[usize], position: usize, draft: &mut Draft<'_>) {
        let mut x = short.to_string();
        for (i, &axis) in axes.iter().enumerate() {
            let is_last = i + 1 == axes.len();
            let whole = if is_last {
                name.to_string()
            } else {
                draft.edits.name(&format!("{name}/whole"))
            };
            let nodes = self.completed(&x, &whole, axis, &mut draft.edits);
            draft.edits.after.entry(position).or_default().extend(nodes);
            x = whole;
        }
    }

    /// Gives results that no output follows from, of nodes whose other results lack their last element, the same form.
    fn shorten_unread(&self, axes: &BTreeMap<ValueId, BTreeSet<usize>>, draft: &mut Draft<'_>) {
        let axes_of = |name: &str| axes.get(&self.names.value(name)?);
        for position in draft.readers.clone() {
            let outputs = &self.model.nodes[position].proto.output;
            let Some(along) = outputs.iter().find_map(|name| axes_of(name)) else {
                continue;
            };
            let along: Vec<usize> = along.iter().copied().collect();
            for (output, name) in outputs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
                if axes_of(name).is_some() {
                    continue;
                }
                let short = draft.edits.name(&format!("{name}/compressed"));
                draft.edits.renamed_outputs.insert((position, output), short.clone());
                self.complete((&short, name), &along, position, draft);
                draft.shortened.push((name.clone(), short));
            }
        }
    }

    /// Lets nodes that read the extents of a value see its old ones, without all of its elements.
    fn keep_shapes(&self, value: ValueId, axes: &BTreeSet<usize>, draft: &mut Draft<'_>) {
        let Some(short) = draft.short.get(&value).cloned() else {
            return;
        };
        let rank = self.graph.ty(value).rank();
        for (position, reader) in self.model.nodes.iter().enumerate() {
            let reads = reader
                .input(0)
                .is_some_and(|input| self.names.all(value).contains(&input));
            if !reads || reader.proto.op_type != "Shape" || !["", "ai.onnx"].contains(&reader.proto.domain.as_str()) {
                continue;
            }
            let at = |attribute: &str, default: i64| {
                let axis = reader.attribute(attribute).map_or(default, |attribute| attribute.i);
                let axis = if axis < 0 {
                    axis.saturating_add(rank as i64)
                } else {
                    axis
                };
                axis.clamp(0, rank as i64) as usize
            };
            let (start, end) = (at("start", 0), at("end", rank as i64));
            let more: Vec<f64> = (start..end)
                .map(|axis| f64::from(u8::from(axes.contains(&axis))))
                .collect();
            draft.edits.renamed.insert((position, 0), short.clone());
            let Some(output) = reader.proto.output.first().filter(|_| more.contains(&1.0)) else {
                continue;
            };
            let added = Tensor::held(&format!("{output}/more"), &[more.len()], Element::Int(8), &more);
            let added = draft.edits.add(added);
            let fewer = draft.edits.name(&format!("{output}/compressed"));
            let mut shape = draft.edits.with_other_names(position, &reader.proto);
            shape.output[0].clone_from(&fewer);
            let sum = node("Add", &added, &[&fewer, &added], output);
            draft.edits.replaced.insert(position, vec![shape, sum]);
        }
    }

    /// Lets the node that gives a value say its new extents, where it says extents at all.
    fn shorten(&self, value: ValueId, (position, name): (usize, &str), axes: &BTreeSet<usize>, draft: &mut Draft<'_>) {
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
        let fewer = Tensor::held(&format!("{name}/fewer"), &[less.len()], Element::Int(8), &less);
        let fewer = draft.edits.add(fewer);
        let new = draft.edits.name(&format!("{name}/shape"));
        let sum = node("Add", &new, &[shape, &fewer], &new);
        draft.edits.before.entry(position).or_default().push(sum);
        draft.edits.renamed.insert((position, 1), new);
    }

    /// Gives nodes complete operands without their last element, where they compute with others that lack it.
    fn slice_operands(&self, draft: &mut Draft<'_>) -> Result<()> {
        for (at, &axis) in &self.conversion.compresses {
            let value = self.graph.nodes[at.node.index()].inputs[at.input];
            let Some(runs) = self.with_name(Lines::of(value, axis)) else {
                continue;
            };
            let sliced = match draft.sliced.get(&runs) {
                Some(sliced) => sliced.clone(),
                None => {
                    let name = self.name(runs.value, draft)?;
                    let sliced = draft.edits.name(&format!("{name}/sliced"));
                    let slice = self.without_last(&name, &sliced, runs, &mut draft.edits);
                    self.put_behind(runs.value, vec![slice], draft);
                    draft.sliced.insert(runs, sliced.clone());
                    sliced
                }
            };
            if !self.is_norm(at.node) {
                self.rename(runs.value, *at, &sliced, draft)?;
            }
        }
        Ok(())
    }

    /// The value with a name that runs are broadcast from by their reader, and its axis; none where that has no such
    /// axis, or one of extent 1, so that the reader broadcasts it to any extent.
    pub(super) fn with_name(&self, runs: Lines) -> Option<Lines> {
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
        let norms = &self.conversion.converted;
        norms.binary_search_by_key(&node, |norm| norm.node).is_ok()
    }

    /// The name of a value that a converted norm reads without its last element.
    pub(super) fn short(&self, value: ValueId, draft: &Draft<'_>) -> Result<String> {
        let short = draft.short.get(&value).cloned();
        short.ok_or_else(|| Error::internal("a value without its last element has no name"))
    }
}
