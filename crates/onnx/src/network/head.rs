//! The last layer of a network, which gives the logits.

use std::collections::HashMap;

use super::NetworkParameter;
use crate::model::{Model, Node};

/// The parameters of the last layer.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Head {
    /// Each with the axis of its classes.
    parameters: Vec<(String, usize)>,
}

impl Head {
    /// The last layer of a network whose output is its logits; none where that is no product with a weight that nothing
    /// else reads.
    pub(super) fn of(model: &Model, parameters: &[NetworkParameter]) -> Option<Head> {
        let output = model.outputs.first()?;
        let nodes = model.nodes.iter();
        let producers = nodes.flat_map(|node| node.proto.output.iter().map(move |name| (name.as_str(), node)));
        let search = Search {
            producers: producers.collect(),
            ranks: parameters
                .iter()
                .map(|own| (own.name.as_str(), own.shape.len()))
                .collect(),
        };
        let parameters = search.from(&output.name)?;
        let readers = |name: &str| {
            model
                .nodes
                .iter()
                .flat_map(Node::reads)
                .filter(|read| *read == name)
                .count()
        };
        parameters
            .iter()
            .all(|(name, _)| readers(name) == 1)
            .then_some(Head { parameters })
    }

    /// The axis of the classes of a parameter; none where it is of another layer.
    pub(super) fn classes_axis(&self, name: &str) -> Option<usize> {
        let own = self.parameters.iter().find(|(own, _)| own == name);
        own.map(|(_, axis)| *axis)
    }
}

struct Search<'m> {
    producers: HashMap<&'m str, &'m Node>,
    /// Ranks of parameters.
    ranks: HashMap<&'m str, usize>,
}

impl Search<'_> {
    /// The parameters of the last layer before a value, each with the axis of its classes.
    fn from(&self, value: &str) -> Option<Vec<(String, usize)>> {
        let (mut value, mut found) = (value.to_string(), Vec::new());
        loop {
            let node = self.producers.get(value.as_str())?;
            let input = |position: usize| node.input(position);
            match node.proto.op_type.as_str() {
                "Identity" | "Flatten" | "Squeeze" | "Reshape" | "Cast" | "Dropout" => value = input(0)?.to_string(),
                "Add" if found.is_empty() => {
                    let (bias, rest) = match (self.row(input(0)?), self.row(input(1)?)) {
                        (Some(bias), None) => (bias, input(1)?),
                        (None, Some(bias)) => (bias, input(0)?),
                        _ => return None,
                    };
                    found.push(bias);
                    value = rest.to_string();
                }
                "Gemm" if found.is_empty() => {
                    let flag = |name: &str| node.attribute(name).is_some_and(|own| own.i != 0);
                    let (weight, is_transposed) = self.matrix(input(1)?)?;
                    found.push((weight, usize::from(flag("transB") == is_transposed)));
                    if let Some(bias) = input(2) {
                        found.push(self.row(bias)?);
                    }
                    return Some(found);
                }
                "MatMul" => {
                    let (weight, is_transposed) = self.matrix(input(1)?)?;
                    found.push((weight, usize::from(!is_transposed)));
                    return Some(found);
                }
                "Conv" if found.is_empty() => {
                    let weight = input(1).filter(|name| self.ranks.contains_key(name))?;
                    found.push((weight.to_string(), 0));
                    if let Some(bias) = input(2) {
                        found.push(self.row(bias)?);
                    }
                    return Some(found);
                }
                _ => return None,
            }
        }
    }

    /// A parameter with a number for each class: its name and the axis.
    fn row(&self, name: &str) -> Option<(String, usize)> {
        let rank = *self.ranks.get(name)?;
        (1..=2).contains(&rank).then(|| (name.to_string(), rank - 1))
    }

    /// A parameter that is a matrix, and whether it is read transposed.
    fn matrix(&self, name: &str) -> Option<(String, bool)> {
        if self.ranks.get(name) == Some(&2) {
            return Some((name.to_string(), false));
        }
        let node = self
            .producers
            .get(name)
            .filter(|node| node.proto.op_type == "Transpose")?;
        let own = node.input(0).filter(|name| self.ranks.get(name) == Some(&2))?;
        Some((own.to_string(), true))
    }
}
