//! The nodes of a converted model that the original one has not.

use lessen_base::{Error, Result};
use lessen_graph::ValueId;
use lessen_rewrite::{ConvertedNorm, Lines, NodeInput, NormShift, NormTarget};

use super::Converter;
use super::attributes::{float, int};
use crate::edit::{Edits, node};
use crate::element::Element;
use crate::proto::NodeProto;
use crate::tensor::Tensor;

impl Converter<'_> {
    /// The name of a value, which the model must have.
    pub(super) fn name(&self, value: ValueId) -> Result<&str> {
        let name = self.names.first(value);
        name.ok_or_else(|| Error::internal("a value that is converted has no name in the model"))
    }

    /// The name of a value without its mean.
    fn centred(&self, runs: Lines) -> Result<String> {
        Ok(format!("{}/centred", self.name(runs.value)?))
    }

    /// Subtracts means where the conversion says so, right after the nodes that define the values.
    pub(super) fn recentre(&self, edits: &mut Edits<'_>) -> Result<()> {
        for (&runs, uses) in &self.conversion.recentred {
            let (x, centred) = (self.name(runs.value)?.to_string(), self.centred(runs)?);
            let mean = format!("{centred}/mean");
            let mut nodes = vec![self.reduced("ReduceMean", 18, &x, &mean, runs.axis as i64, edits)];
            if self.conversion.target == NormTarget::Crms {
                let whole = format!("{centred}/whole");
                nodes.push(node("Sub", &whole, &[&x, &mean], &whole));
                nodes.push(self.without_last(&whole, &centred, runs, edits));
            } else {
                nodes.push(node("Sub", &centred, &[&x, &mean], &centred));
            }
            self.put_behind(&x, nodes, edits);
            for at in uses {
                self.rename(runs.value, *at, &centred, edits)?;
            }
        }
        Ok(())
    }

    /// Puts nodes after the node that defines a name, or in front of all nodes.
    pub(super) fn put_behind(&self, name: &str, nodes: Vec<NodeProto>, edits: &mut Edits<'_>) {
        match self.names.definition(name) {
            Some(position) => edits.behind.entry(position).or_default().extend(nodes),
            None => edits.front.extend(nodes),
        }
    }

    /// Lets the node of a use read another name in place of a value.
    pub(super) fn rename(&self, value: ValueId, at: NodeInput, name: &str, edits: &mut Edits<'_>) -> Result<()> {
        let Some(position) = self.names.node(at.node) else {
            return Err(Error::internal(
                "a node that reads a converted value is not in the model",
            ));
        };
        let inputs = self.model.nodes[position].proto.input.iter().enumerate();
        for (input, _) in inputs.filter(|(_, input)| self.names.all(value).contains(&input.as_str())) {
            edits.renamed.insert((position, input), name.to_string());
        }
        Ok(())
    }

    /// Leaves out multiplications that are in the parameters.
    pub(super) fn absorb(&self, edits: &mut Edits<'_>) -> Result<()> {
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
            let same = node("Identity", &proto.name, &[input], &proto.output[0]);
            edits.replaced.insert(position, vec![same]);
        }
        Ok(())
    }

    /// Writes a converted norm in place of the node that gives its result.
    pub(super) fn norm(&self, norm: &ConvertedNorm, edits: &mut Edits<'_>) -> Result<()> {
        let operation = &self.graph.nodes[norm.node.index()];
        let y = self.name(operation.outputs[0])?.to_string();
        let Some(position) = self.names.definition(&y) else {
            return Err(Error::internal("nothing in the model gives the result of a norm"));
        };
        let x = operation.inputs[0];
        let at = NodeInput {
            node: norm.node,
            input: 0,
        };
        let recentred = self
            .conversion
            .recentred
            .iter()
            .find(|(runs, uses)| runs.value == x && uses.contains(&at));
        let compressed = self.conversion.compresses.contains_key(&at);
        let x = match recentred {
            Some((runs, _)) => self.centred(*runs)?,
            None if compressed => format!("{}/compressed", self.name(x)?),
            None => self.name(x)?.to_string(),
        };
        let eps = operation.op.attrs().float("eps").unwrap_or(0.0);
        let name = self.model.nodes[position].proto.name.clone();
        let nodes = match self.conversion.target {
            NormTarget::Rms => self.rms_norm(norm, &name, &x, &y, eps, edits)?,
            NormTarget::Crms => self.crms_norm(norm, &name, &x, &y, eps, edits)?,
        };
        edits.replaced.insert(position, nodes);
        Ok(())
    }

    /// A norm with its scale, and its shift where that is added.
    fn rms_norm(
        &self,
        norm: &ConvertedNorm,
        name: &str,
        x: &str,
        y: &str,
        eps: f64,
        edits: &mut Edits<'_>,
    ) -> Result<Vec<NodeProto>> {
        let [scale, shift] = self.parameters_of(norm)?;
        let scale = self.row(scale, y, "scale", 1.0, edits);
        if norm.shift == NormShift::Absorbed {
            return Ok(vec![self.norm_node(name, [x, &scale], y, eps)]);
        }
        let scaled = format!("{y}/scaled");
        let shift = self.row(shift, y, "shift", 0.0, edits);
        let sum = node("Add", &format!("{name}/shift"), &[&scaled, &shift], y);
        Ok(vec![self.norm_node(name, [x, &scale], &scaled, eps), sum])
    }

    /// A norm of values without their last element, whose result is like that, or has all elements, scale and shift.
    fn crms_norm(
        &self,
        norm: &ConvertedNorm,
        name: &str,
        x: &str,
        y: &str,
        eps: f64,
        edits: &mut Edits<'_>,
    ) -> Result<Vec<NodeProto>> {
        let [scale, shift] = self.parameters_of(norm)?;
        let result = self.graph.nodes[norm.node.index()].outputs[0];
        let (ty, element) = (self.graph.ty(result), self.element_of(scale));
        if norm.is_compressed {
            return Ok(self.compressed_norm(x, y, ty.last(), eps, element, edits));
        }
        let [short, whole, scaled] = ["short", "whole", "scaled"].map(|part| format!("{y}/{part}"));
        let mut nodes = self.compressed_norm(x, &short, ty.last(), eps, element, edits);
        nodes.extend(self.completed(&short, &whole, Lines::of(result, ty.rank() - 1), edits));
        let scale = self.row(scale, y, "scale", 1.0, edits);
        let is_last = norm.shift == NormShift::Absorbed;
        let product = if is_last { y } else { &scaled };
        nodes.push(node("Mul", &format!("{name}/scale"), &[&whole, &scale], product));
        if !is_last {
            let shift = self.row(shift, y, "shift", 0.0, edits);
            nodes.push(node("Add", &format!("{name}/shift"), &[&scaled, &shift], y));
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

    /// The name of a row of parameters: of the model's initializer, or of a new initializer of one number.
    fn row(&self, value: ValueId, norm: &str, part: &str, number: f64, edits: &mut Edits<'_>) -> String {
        if let Some(name) = self.names.first(value) {
            return name.to_string();
        }
        let name = format!("{norm}/{part}");
        let width = self.graph.ty(value).numel();
        let element = Element::F32;
        edits
            .added
            .push(Tensor::held(&name, &[width], element, &vec![number; width]));
        name
    }

    fn norm_node(&self, name: &str, inputs: [&str; 2], output: &str, eps: f64) -> NodeProto {
        let mut norm = node(self.operators.name(), name, &inputs, output);
        norm.attribute
            .extend([int("axis", -1), float("epsilon", eps), int("stash_type", 1)]);
        norm
    }
}
