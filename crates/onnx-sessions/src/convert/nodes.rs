//! The nodes of a converted model that the original one has not.

use lessen_base::{Error, Result};
use lessen_graph::ValueId;
use lessen_graph::ops::{Broadcast, Reshape};
use lessen_rewrite::{ConvertedNorm, Lines, NodeInput, NormShift, NormTarget};

use super::Converter;
use super::attributes::{float, int};
use super::draft::Draft;
use lessen_onnx::Element;
use lessen_onnx::Tensor;
use lessen_onnx::edit::node;
use lessen_onnx::proto::NodeProto;

impl Converter<'_> {
    /// The name of a value, which the model must have, or one that it computes inside a node.
    pub(super) fn name(&self, value: ValueId, draft: &Draft<'_>) -> Result<String> {
        let name = self.names.first(value).map(str::to_string);
        let name = name.or_else(|| draft.inner.get(&value).cloned());
        name.ok_or_else(|| Error::internal("a value that is converted has no name in the model"))
    }

    /// Subtracts means where the conversion says so, right after the nodes that define the values.
    pub(super) fn recentre(&self, draft: &mut Draft<'_>) -> Result<()> {
        for (&runs, uses) in &self.conversion.recentred {
            let x = self.name(runs.value, draft)?;
            let centred = draft.edits.name(&format!("{x}/centred"));
            let mean = draft.edits.name(&format!("{centred}/mean"));
            let mut nodes = vec![self.reduced("ReduceMean", 18, &x, &mean, runs.axis as i64, &mut draft.edits)];
            if self.conversion.target == NormTarget::Crms {
                let whole = draft.edits.name(&format!("{centred}/whole"));
                nodes.push(node("Sub", &whole, &[&x, &mean], &whole));
                nodes.push(self.without_last(&whole, &centred, runs, &mut draft.edits));
            } else {
                nodes.push(node("Sub", &centred, &[&x, &mean], &centred));
            }
            self.put_behind(runs.value, nodes, draft);
            for at in uses {
                self.rename(runs.value, *at, &centred, draft)?;
            }
            draft.centred.insert(runs, centred);
        }
        Ok(())
    }

    /// Puts nodes after the node that computes a value, or in front of all nodes.
    pub(super) fn put_behind(&self, value: ValueId, nodes: Vec<NodeProto>, draft: &mut Draft<'_>) {
        let of_name = self.names.first(value).map(|name| self.names.definition(name));
        let of_node = || self.names.node(self.graph.producer(value)?);
        match of_name.unwrap_or_else(of_node) {
            Some(position) => draft.edits.after.entry(position).or_default().extend(nodes),
            None => draft.edits.front.extend(nodes),
        }
    }

    /// Lets the node of a use read another name in place of a value.
    pub(super) fn rename(&self, value: ValueId, at: NodeInput, name: &str, draft: &mut Draft<'_>) -> Result<()> {
        let Some(position) = self.names.node(at.node) else {
            return Err(Error::internal(
                "a node that reads a converted value is not in the model",
            ));
        };
        let inputs = self.model.nodes[position].proto.input.iter().enumerate();
        for (input, _) in inputs.filter(|(_, input)| self.names.all(value).contains(&input.as_str())) {
            draft.edits.renamed.insert((position, input), name.to_string());
        }
        Ok(())
    }

    /// Leaves out multiplications that are in the parameters.
    pub(super) fn absorb(&self, draft: &mut Draft<'_>) -> Result<()> {
        for (&product, &kept) in &self.conversion.absorbed {
            let Some(position) = self.names.node(product) else {
                return Err(Error::internal(
                    "a multiplication that is converted is not in the model",
                ));
            };
            let proto = &self.model.nodes[position].proto;
            let is_kept = |input: &&String| self.names.all(kept).contains(&input.as_str());
            let Some(input) = proto.input.iter().find(is_kept) else {
                return Err(Error::internal("a factor that is converted is not in the model"));
            };
            let result = self.graph.nodes[product.index()].outputs[0];
            let input = draft.short.get(&kept).unwrap_or(input);
            let output = draft.short.get(&result).unwrap_or(&proto.output[0]);
            let same = node("Identity", &proto.name, &[input], output);
            draft.edits.replaced.insert(position, vec![same]);
        }
        Ok(())
    }

    /// Names the sums that the model computes inside a node together with their norm.
    pub(super) fn name_sums(&self, draft: &mut Draft<'_>) {
        for norm in &self.conversion.converted {
            let operation = &self.graph.nodes[norm.node.index()];
            let sum = operation.inputs[0];
            let result = self.names.first(operation.outputs[0]);
            if let (None, Some(result)) = (self.names.first(sum), result) {
                let name = draft.edits.name(&format!("{result}/residual"));
                draft.inner.insert(sum, name);
            }
        }
    }

    /// Writes a converted norm in place of the node that gives its result.
    pub(super) fn norm(&self, norm: &ConvertedNorm, draft: &mut Draft<'_>) -> Result<()> {
        let operation = &self.graph.nodes[norm.node.index()];
        let (x, result) = (operation.inputs[0], operation.outputs[0]);
        let y = self.name(result, draft)?;
        let Some(position) = self.names.definition(&y) else {
            return Err(Error::internal("nothing in the model gives the result of a norm"));
        };
        let y = if norm.is_compressed {
            self.short(result, draft)?
        } else {
            y
        };
        let at = NodeInput {
            node: norm.node,
            input: 0,
        };
        let mut recentred = self.conversion.recentred.iter();
        let recentred = recentred.find(|(runs, uses)| runs.value == x && uses.contains(&at));
        let sliced = self.conversion.compresses.get(&at);
        let sliced = sliced.and_then(|axis| self.with_name(Lines::of(x, *axis)));
        let form = match (recentred, sliced) {
            (Some((runs, _)), _) => draft.centred.get(runs).cloned(),
            (None, Some(runs)) => draft.sliced.get(&runs).cloned(),
            (None, None) if self.conversion.reads_compressed.contains(&at) => Some(self.short(x, draft)?),
            (None, None) => Some(self.name(x, draft)?),
        };
        let Some(form) = form else {
            return Err(Error::internal("the input of a converted norm has no name"));
        };
        let eps = operation.op.attrs().float("eps").unwrap_or(0.0);
        let name = self.model.nodes[position].proto.name.clone();
        let nodes = match self.conversion.target {
            NormTarget::Rms => self.rms_norm(norm, &name, (&form, &y), eps, draft)?,
            NormTarget::Crms => self.crms_norm(norm, &name, (&form, &y), eps, draft)?,
        };
        if self.model.nodes[position].proto.op_type == "SkipLayerNormalization" {
            let sum = match draft.short.get(&x) {
                Some(short) => short.clone(),
                None => self.name(x, draft)?,
            };
            let sum = self.sum(position, &sum, draft);
            draft.edits.replaced.insert(position, sum);
            // The mean of the sum may be subtracted before the norm, and the norm completed after it.
            let after = draft.edits.after.entry(position).or_default();
            let at = after
                .iter()
                .position(|node| node.input.contains(&y))
                .unwrap_or(after.len());
            after.splice(at..at, nodes);
        } else {
            draft.edits.replaced.insert(position, nodes);
        }
        Ok(())
    }

    /// The sum that a `SkipLayerNormalization` normalizes: of its inputs 0 and 1, and of 4 where it is there.
    fn sum(&self, position: usize, sum: &str, draft: &mut Draft<'_>) -> Vec<NodeProto> {
        let skip = draft
            .edits
            .with_other_names(position, &self.model.nodes[position].proto);
        let (name, input) = (format!("{sum}/sum"), &skip.input);
        match input.get(4).filter(|bias| !bias.is_empty()) {
            None => vec![node("Add", &name, &[&input[0], &input[1]], sum)],
            Some(bias) => {
                let plain = draft.edits.name(&format!("{sum}/plain"));
                let first = node("Add", &plain, &[&input[0], &input[1]], &plain);
                vec![first, node("Add", &name, &[&plain, bias], sum)]
            }
        }
    }

    /// A norm with its scale, and its shift where that is added.
    fn rms_norm(
        &self,
        norm: &ConvertedNorm,
        name: &str,
        (x, y): (&str, &str),
        eps: f64,
        draft: &mut Draft<'_>,
    ) -> Result<Vec<NodeProto>> {
        let [scale, shift] = self.parameters_of(norm)?;
        let scale = self.row(scale, &format!("{y}/scale"), draft)?;
        if norm.shift == NormShift::Absorbed {
            return Ok(vec![self.norm_node(name, [x, &scale], y, eps)]);
        }
        let scaled = draft.edits.name(&format!("{y}/scaled"));
        let shift = self.row(shift, &format!("{y}/shift"), draft)?;
        let sum = node("Add", &format!("{y}/shifted"), &[&scaled, &shift], y);
        Ok(vec![self.norm_node(name, [x, &scale], &scaled, eps), sum])
    }

    /// A norm of values without their last element, whose result is like that, or has all elements, scale and shift.
    fn crms_norm(
        &self,
        norm: &ConvertedNorm,
        name: &str,
        (x, y): (&str, &str),
        eps: f64,
        draft: &mut Draft<'_>,
    ) -> Result<Vec<NodeProto>> {
        let [scale, shift] = self.parameters_of(norm)?;
        let result = self.graph.nodes[norm.node.index()].outputs[0];
        let (ty, element) = (self.graph.ty(result), self.element_of(scale));
        if norm.is_compressed {
            return Ok(self.compressed_norm((x, y), ty.last(), eps, element, &mut draft.edits));
        }
        let [short, whole, scaled] = ["short", "whole", "scaled"].map(|part| draft.edits.name(&format!("{y}/{part}")));
        let mut nodes = self.compressed_norm((x, &short), ty.last(), eps, element, &mut draft.edits);
        nodes.extend(self.completed(&short, &whole, ty.rank() - 1, &mut draft.edits));
        let scale = self.row(scale, &format!("{y}/scale"), draft)?;
        let is_last = norm.shift == NormShift::Absorbed;
        let product = if is_last { y } else { &scaled };
        nodes.push(node("Mul", name, &[&whole, &scale], product));
        if !is_last {
            let shift = self.row(shift, &format!("{y}/shift"), draft)?;
            nodes.push(node("Add", &format!("{y}/shifted"), &[&scaled, &shift], y));
        }
        Ok(nodes)
    }

    /// The element type of a parameter.
    fn element_of(&self, value: ValueId) -> Element {
        let tensor = self
            .names
            .first(value)
            .and_then(|name| self.model.initializers.get(name));
        tensor.map_or(Element::F32, |tensor| tensor.element)
    }

    /// The values of a norm's scale and shift.
    fn parameters_of(&self, norm: &ConvertedNorm) -> Result<[ValueId; 2]> {
        let operation = &self.graph.nodes[norm.node.index()];
        let rule = operation
            .op
            .when_centred()
            .ok_or_else(|| Error::internal("a converted node is no norm"))?;
        Ok([rule.scale, rule.shift].map(|input| operation.inputs[input]))
    }

    /// The name of a row of parameters: of a value of the model, with other extents perhaps, or of a new initializer.
    fn row(&self, value: ValueId, wanted: &str, draft: &mut Draft<'_>) -> Result<String> {
        /// Wider rows are no parameters that a model has.
        const WIDEST: usize = 1 << 24;
        if let Some(name) = self.names.first(value) {
            return Ok(name.to_string());
        }
        let width = self.graph.ty(value).numel();
        if width > WIDEST {
            return Err(self.model.error(&format!(
                "a norm of {width} elements has no scale or shift of its own, and is too wide for new ones"
            )));
        }
        if let Some(number) = self.numbers[value.index()] {
            let row = Tensor::held(wanted, &[width], Element::F32, &vec![number; width]);
            return Ok(draft.edits.add(row));
        }
        let Some(named) = self.same_elements(value) else {
            return Err(self
                .model
                .error("the scale or shift of a norm is computed, and has no name"));
        };
        let name = self.name(named, draft)?;
        let row = draft.edits.name(wanted);
        let shape = Tensor::held(&format!("{row}/shape"), &[1], Element::Int(8), &[width as f64]);
        let shape = draft.edits.add(shape);
        let reshape = node("Reshape", &row, &[&name, &shape], &row);
        self.put_behind(named, vec![reshape], draft);
        Ok(row)
    }

    /// The value with a name whose elements another value has under other extents.
    fn same_elements(&self, mut value: ValueId) -> Option<ValueId> {
        let elements = self.graph.ty(value).numel();
        while self.names.first(value).is_none() {
            let node = &self.graph.nodes[self.graph.producer(value)?.index()];
            let &from = node.inputs.first()?;
            let is_same = node.op.is::<Reshape>() || node.op.is::<Broadcast>();
            if !is_same || self.graph.ty(from).numel() != elements {
                return None;
            }
            value = from;
        }
        Some(value)
    }

    fn norm_node(&self, name: &str, inputs: [&str; 2], output: &str, eps: f64) -> NodeProto {
        let mut norm = node(self.operators.name(), name, &inputs, output);
        norm.attribute
            .extend([int("axis", -1), float("epsilon", eps), int("stash_type", 1)]);
        norm
    }
}
