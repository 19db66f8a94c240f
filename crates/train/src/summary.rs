//! The summary of a model in training: its layers with shapes, parameters and bytes, and what the training takes.

use crate::trainer::Trainer;
use lessen_base::show_size;
use lessen_graph::{Type, numel};
use std::fmt;

/// A layer: the parameters whose names have the same part before the last point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSummary {
    /// The part of the names before the last point; empty for names without one.
    pub name: String,
    /// The parts of the names after it, with the shapes.
    pub tensors: Vec<(String, Vec<usize>)>,
    /// The number of elements.
    pub elements: usize,
    /// The number of elements that are trained: those of frozen parameters and of buffers are not.
    pub trained: usize,
}

/// The summary of a model in training. It is printed as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The layers, in order of the first use of their parameters.
    pub layers: Vec<LayerSummary>,
    /// Bytes of the parameters on the device.
    pub parameter_bytes: usize,
    /// Bytes of the other states on the device: the optimizer's, those of the model function, and sums of gradients.
    pub state_bytes: usize,
    /// The planned peak of the training in bytes; see [`Peak::planned`](crate::Peak::planned).
    pub planned_peak: usize,
}

impl Trainer {
    /// The summary of the model and its training.
    pub fn summary(&self) -> Summary {
        let mut layers: Vec<LayerSummary> = Vec::new();
        let mut parameter_bytes = 0;
        for param in self.params() {
            let (layer, tensor) = param.name.rsplit_once('.').unwrap_or(("", &param.name));
            let at = layers.iter().position(|own| own.name == layer).unwrap_or_else(|| {
                layers.push(LayerSummary {
                    name: layer.to_string(),
                    tensors: Vec::new(),
                    elements: 0,
                    trained: 0,
                });
                layers.len() - 1
            });
            let (own, elements) = (&mut layers[at], numel(&param.shape));
            own.tensors.push((tensor.to_string(), param.shape.clone()));
            own.elements += elements;
            own.trained += if self.trains(param) { elements } else { 0 };
            parameter_bytes += Type::f32(&param.shape).bytes();
        }
        Summary {
            layers,
            parameter_bytes,
            state_bytes: self.planned_state_bytes().saturating_sub(parameter_bytes),
            planned_peak: self.peak().planned,
        }
    }
}

impl Summary {
    /// The number of elements of all parameters.
    pub fn elements(&self) -> usize {
        self.layers.iter().map(|layer| layer.elements).sum()
    }

    /// The number of elements that are trained.
    pub fn trained(&self) -> usize {
        self.layers.iter().map(|layer| layer.trained).sum()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, shape): &(String, Vec<usize>)| format!("{name} {shape:?}");
        let row = |layer: &LayerSummary| {
            let tensors: Vec<String> = layer.tensors.iter().map(shown).collect();
            let trained = match layer.trained {
                0 => "no".to_string(),
                all if all == layer.elements => "yes".to_string(),
                part => format!("{} of them", grouped(part)),
            };
            let bytes = show_size(layer.elements.saturating_mul(size_of::<f32>()));
            [
                layer.name.clone(),
                tensors.join(", "),
                grouped(layer.elements),
                bytes,
                trained,
            ]
        };
        let heading = ["layer", "shapes", "parameters", "bytes", "trained"].map(String::from);
        let mut rows = vec![heading];
        rows.extend(self.layers.iter().map(row));
        rows.push([
            "total".to_string(),
            String::new(),
            grouped(self.elements()),
            show_size(self.parameter_bytes),
            grouped(self.trained()),
        ]);
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let [layer, shapes, parameters, bytes] = std::array::from_fn(width);
        for [a, b, c, d, e] in &rows {
            writeln!(f, "{a:layer$}  {b:shapes$}  {c:>parameters$}  {d:>bytes$}  {e}")?;
        }
        write!(
            f,
            "states of training: {}; planned peak of the training: {}",
            show_size(self.state_bytes),
            show_size(self.planned_peak)
        )
    }
}

/// A number with a comma before each three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        let found = [0, 12, 123, 1234, 123_456, 1_234_567].map(grouped);
        assert_eq!(found, ["0", "12", "123", "1,234", "123,456", "1,234,567"]);
    }
}
