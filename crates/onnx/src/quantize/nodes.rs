//! The nodes that a product of integers is made of.

use std::collections::HashMap;

use lessen_base::Result;

use super::weights::{Layout, held};
use super::{Product, Ranges};
use crate::edit::{Edits, node};
use crate::element::Element;
use crate::model::Model;
use crate::proto::{AttributeProto, AttributeType, NodeProto};

/// The greatest unsigned integer of 8 bits.
const MOST: f64 = 255.0;

/// A model while its changes are written.
pub(super) struct Writer<'m> {
    model: &'m Model,
    edits: Edits<'m>,
    /// What products read in place of a value: floats that are restored from integers, or integers with the names of
    /// their scale and zero point.
    restored: HashMap<String, String>,
    integers: HashMap<String, [String; 3]>,
    /// The integers of weights: their names, and those of their scales and zero points, by the weight's name, how its
    /// columns lie, and whether it is turned.
    weights: HashMap<(String, Layout, bool), [String; 3]>,
}

impl<'m> Writer<'m> {
    pub fn new(model: &'m Model, edits: Edits<'m>) -> Writer<'m> {
        Writer {
            model,
            edits,
            restored: HashMap::new(),
            integers: HashMap::new(),
            weights: HashMap::new(),
        }
    }

    /// The changes, without initializers that nothing reads any more.
    pub fn finish(mut self) -> Edits<'m> {
        let mut reads: HashMap<&str, usize> = HashMap::new();
        for name in self.model.nodes.iter().flat_map(|node| node.reads()) {
            *reads.entry(name).or_default() += 1;
        }
        let renamed = self.edits.renamed.keys().map(|(position, input)| (*position, *input));
        let replaced = self.edits.replaced.keys().map(|position| (*position, 1));
        let mut gone: Vec<(usize, usize)> = renamed.chain(replaced).filter(|(_, input)| *input == 1).collect();
        gone.dedup();
        for (position, input) in gone {
            let Some(name) = self.model.nodes[position].input(input) else {
                continue;
            };
            let Some(left) = reads.get_mut(name) else { continue };
            *left -= 1;
            let is_output = self.model.outputs.iter().any(|output| output.name == name);
            if *left == 0 && !is_output {
                self.edits.dropped.insert(name.to_string());
            }
        }
        self.edits.name_nodes(self.model);
        self.edits
    }

    /// Makes a product read numbers that are restored from integers; none, or why it stays as it is.
    pub fn in_given_range(&mut self, product: &Product<'_>, ranges: &Ranges) -> Result<Option<String>> {
        let Some(x) = product.node.input(0) else {
            return Ok(Some("it has no input".to_string()));
        };
        let Some([least, most]) = ranges.get(x).copied() else {
            return Ok(Some(format!("the range of `{x}` is not known")));
        };
        if !(least.is_finite() && most.is_finite()) {
            return Ok(Some(format!("`{x}` has numbers that are not finite")));
        }
        let restored = match self.restored.get(x) {
            Some(name) => name.clone(),
            None => self.restore(product.position, x, [least, most]),
        };
        let [integers, scale, zero] = self.weight(product, false)?;
        let weight = self.edits.name(&format!("{}_restored", product.weight.name()));
        let mut dequantize = node("DequantizeLinear", &weight, &[&integers, &scale, &zero], &weight);
        dequantize.attribute.push(int("axis", product.weight.axis()));
        self.before(product.position, dequantize);
        self.edits.renamed.insert((product.position, 0), restored);
        self.edits.renamed.insert((product.position, 1), weight);
        Ok(None)
    }

    /// Makes a product one of integers in the range of its input; none, or why it stays as it is.
    pub fn in_own_range(&mut self, product: &Product<'_>) -> Result<Option<String>> {
        let proto = &product.node.proto;
        if matches!(product.weight.layout, Layout::Kernels | Layout::TransposedKernels) {
            return Ok(Some("images need ranges from data (--calibrate)".to_string()));
        }
        let is_one = |name: &str| product.node.attribute(name).is_none_or(|attribute| attribute.f == 1.0);
        if !is_one("alpha") || (product.node.input(2).is_some() && !is_one("beta")) {
            return Ok(Some("it scales its terms".to_string()));
        }
        let (Some(x), Some(output)) = (product.node.input(0), proto.output.first()) else {
            return Ok(Some("it has no input or output".to_string()));
        };
        let [integers, scale, zero] = match self.integers.get(x) {
            Some(names) => names.clone(),
            None => self.in_its_range(product.position, x),
        };
        let [weight, weight_scale, weight_zero] = self.weight(product, true)?;
        let name = |writer: &mut Self, suffix: &str| writer.edits.name(&format!("{output}_{suffix}"));
        let (sums, floats, both) = (name(self, "sums"), name(self, "floats"), name(self, "scales"));
        let mut nodes = vec![
            node(
                "MatMulInteger",
                &sums,
                &[&integers, &weight, &zero, &weight_zero],
                &sums,
            ),
            node("Cast", &floats, &[&sums], &floats),
            node("Mul", &both, &[&scale, &weight_scale], &both),
        ];
        nodes[1].attribute.push(int("to", Element::F32.data_type().into()));
        match product.node.input(2) {
            Some(bias) => {
                let scaled = name(self, "scaled");
                nodes.push(node("Mul", &scaled, &[&floats, &both], &scaled));
                nodes.push(node("Add", &product.node.shown(), &[&scaled, bias], output));
            }
            None => nodes.push(node("Mul", &product.node.shown(), &[&floats, &both], output)),
        }
        self.edits.replaced.insert(product.position, nodes);
        Ok(None)
    }

    fn before(&mut self, position: usize, node: NodeProto) {
        self.edits.before.entry(position).or_default().push(node);
    }

    /// Adds the nodes that restore a value from integers in a range, which is widened to hold zero.
    fn restore(&mut self, position: usize, x: &str, [least, most]: [f32; 2]) -> String {
        let (least, most) = (f64::from(least.min(0.0)), f64::from(most.max(0.0)));
        let scale = ((most - least) / MOST) as f32;
        let scale = if scale >= f32::MIN_POSITIVE { scale } else { 1.0 };
        let zero = (-least / f64::from(scale)).round_ties_even().clamp(0.0, MOST) as u8;
        let scale = held(&format!("{x}_scale"), &[], Element::F32, scale.to_le_bytes().to_vec());
        let zero = held(&format!("{x}_zero"), &[], Element::Unsigned(1), vec![zero]);
        let (scale, zero) = (self.edits.add(scale), self.edits.add(zero));
        let integers = self.edits.name(&format!("{x}_quantized"));
        let restored = self.edits.name(&format!("{x}_restored"));
        self.before(
            position,
            node("QuantizeLinear", &integers, &[x, &scale, &zero], &integers),
        );
        let inputs = [integers.as_str(), &scale, &zero];
        self.before(position, node("DequantizeLinear", &restored, &inputs, &restored));
        self.restored.insert(x.to_string(), restored.clone());
        restored
    }

    /// Adds the node that makes integers of a value in its own range.
    fn in_its_range(&mut self, position: usize, x: &str) -> [String; 3] {
        let names = ["quantized", "scale", "zero"].map(|suffix| self.edits.name(&format!("{x}_{suffix}")));
        let mut quantize = node("DynamicQuantizeLinear", &names[0], &[x], &names[0]);
        quantize.output = names.to_vec();
        self.before(position, quantize);
        self.integers.insert(x.to_string(), names.clone());
        names
    }

    /// The integers of a weight as initializers; `as_rows` as `[K, N]`.
    fn weight(&mut self, product: &Product<'_>, as_rows: bool) -> Result<[String; 3]> {
        let (weight, turns) = (&product.weight, as_rows && product.weight.layout == Layout::Columns);
        let key = (weight.name().to_string(), weight.layout, turns);
        if let Some(names) = self.weights.get(&key) {
            return Ok(names.clone());
        }
        let integers = weight.integers(self.model)?;
        let (mut shape, mut levels) = (weight.tensor.shape.clone(), integers.levels);
        if turns {
            let (n, k) = (shape[0], shape[1]);
            levels = (0..k * n).map(|i| levels[i % n * k + i / n]).collect();
            shape.reverse();
        }
        let columns = integers.scales.len();
        let name = weight.name();
        let bytes = |levels: Vec<i8>| levels.into_iter().map(|level| level as u8).collect();
        let scales = integers.scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        let names = [
            held(&format!("{name}_quantized"), &shape, Element::Int(1), bytes(levels)),
            held(&format!("{name}_scale"), &[columns], Element::F32, scales),
            held(&format!("{name}_zero"), &[columns], Element::Int(1), vec![0; columns]),
        ]
        .map(|tensor| self.edits.add(tensor));
        self.weights.insert(key, names.clone());
        Ok(names)
    }
}

fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Int.into(),
        i,
        ..AttributeProto::default()
    }
}
