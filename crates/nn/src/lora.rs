//! LoRA (Hu et al. 2021): the weights of linear layers are frozen, and a product of two small matrices is trained
//! beside each.

use lessen_base::{Error, Result};

use crate::params::ParamSpec;
use crate::patterns::Patterns;

/// Name of the first matrix of an adapter, under the name of its layer.
pub(crate) const A: &str = "lora_A.weight";

/// Name of the second matrix.
pub(crate) const B: &str = "lora_B.weight";

/// LoRA: a layer `y = x Wᵀ + b` with `W` of shape `[out, in]` becomes `y = x Wᵀ + s dropout(x) Aᵀ Bᵀ + b` with the
/// factor `s = alpha / rank`, `A` of shape `[rank, in]` and `B` of shape `[out, rank]`, called `LAYER.lora_A.weight`
/// and `LAYER.lora_B.weight`. `B` begins as zeros, so that the model begins as it was; `A` begins uniform with the
/// bound `1 / sqrt(in)`, as in `peft`.
#[derive(Clone, PartialEq, Debug)]
pub struct Lora {
    /// Rows of `A`.
    pub rank: usize,
    /// `rank` times the factor of the product.
    pub alpha: f64,
    /// Whether the factor is `alpha / sqrt(rank)` instead (rsLoRA, Kalajdzievski 2023).
    pub rank_stabilized: bool,
    /// Dropout probability of the input of `A` in training, in `[0, 1)`.
    pub dropout: f64,
    /// The layers: their names, or the last parts of them, such as `query`.
    pub targets: Vec<String>,
    /// Whether the weights of the layers have the shape `[in, out]`, as GPT-2 has them ([`gpt2_linear`]), not
    /// `[out, in]` ([`linear`]).
    ///
    /// [`gpt2_linear`]: crate::layers::gpt2_linear
    /// [`linear`]: crate::layers::linear
    pub fan_in_fan_out: bool,
    /// The folder of the model that the adapters are for, for `adapter_config.json`.
    pub base: String,
    /// Parameters that are trained themselves beside the adapters, such as a new head's.
    pub whole: Patterns,
}

impl Lora {
    /// Checks the ranges of its numbers.
    ///
    /// # Errors
    /// A rank of 0, an `alpha` that is infinite or no number, and a dropout outside of `[0, 1)`.
    pub fn check(&self) -> Result<()> {
        let what = if self.rank == 0 {
            "the adapters have rank 0; choose at least 1".to_string()
        } else if !self.alpha.is_finite() {
            format!("the adapters have alpha = {}; choose a finite number", self.alpha)
        } else if !(0.0..1.0).contains(&self.dropout) {
            let dropout = self.dropout;
            format!("the adapters have dropout with the probability {dropout}; choose one from 0 to below 1")
        } else {
            return Ok(());
        };
        Err(Error::user(what))
    }

    /// The factor of the product.
    pub fn scale(&self) -> f64 {
        scale(self.alpha, self.rank, self.rank_stabilized)
    }

    /// Whether a layer gets an adapter. One that is trained whole has none, as in `peft`.
    pub fn adapts(&self, layer: &str) -> bool {
        let is = |target: &String| layer.strip_suffix(target.as_str()).is_some_and(ends_part);
        self.targets.iter().any(is) && !self.whole.contains(&format!("{layer}.weight"))
    }

    /// Whether a parameter is trained.
    pub fn trains(&self, name: &str) -> bool {
        adapter_layer(name).is_some() || self.whole.contains(name)
    }
}

/// The factor of the product of an adapter.
pub(crate) fn scale(alpha: f64, rank: usize, rank_stabilized: bool) -> f64 {
    let rank = rank as f64;
    alpha / if rank_stabilized { rank.sqrt() } else { rank }
}

/// Whether a prefix of a name is empty or ends with a whole part.
fn ends_part(start: &str) -> bool {
    start.is_empty() || start.ends_with('.')
}

/// The layer that a parameter is an adapter of; none for other parameters.
pub fn adapter_layer(name: &str) -> Option<&str> {
    let layer = |matrix: &str| name.strip_suffix(matrix)?.strip_suffix('.');
    layer(A).or_else(|| layer(B))
}

/// The adapter of a layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adapter {
    layer: String,
    /// Rows of `A`.
    pub rank: usize,
    /// Columns of `A`: the width of the layer's input.
    pub inputs: usize,
    /// Rows of `B`: the width of the layer's output.
    pub outputs: usize,
}

impl Adapter {
    /// The adapters among these parameters.
    pub fn of(params: &[ParamSpec]) -> Vec<Adapter> {
        let shape = |name: String| params.iter().find(|param| param.name == name).map(|param| &param.shape);
        let layers = params
            .iter()
            .filter_map(|param| param.name.strip_suffix(A)?.strip_suffix('.'));
        let adapter = |layer: &str| {
            let (a, b) = (shape(format!("{layer}.{A}"))?, shape(format!("{layer}.{B}"))?);
            let (&[rank, inputs], &[outputs, of_b]) = (a.as_slice(), b.as_slice()) else {
                return None;
            };
            (rank == of_b).then(|| Adapter {
                layer: layer.to_string(),
                rank,
                inputs,
                outputs,
            })
        };
        layers.filter_map(adapter).collect()
    }

    /// An adapter of rank 0 for the layer of a parameter; none if that is no matrix of a layer. `fan_in_fan_out` says
    /// whether the matrix is `[in, out]`.
    pub(crate) fn beside(weight: &ParamSpec, fan_in_fan_out: bool) -> Option<Adapter> {
        let layer = weight.name.strip_suffix(".weight")?.to_string();
        let (inputs, outputs) = match (weight.shape.as_slice(), fan_in_fan_out) {
            (&[inputs, outputs], true) | (&[outputs, inputs], false) => (inputs, outputs),
            _ => return None,
        };
        Some(Adapter {
            layer,
            rank: 0,
            inputs,
            outputs,
        })
    }

    /// The layer that it belongs to.
    pub fn layer(&self) -> &str {
        &self.layer
    }

    /// The name of the parameter that it is added to.
    pub fn weight(&self) -> String {
        format!("{}.weight", self.layer)
    }

    /// The name of `A`.
    pub fn a(&self) -> String {
        format!("{}.{A}", self.layer)
    }

    /// The name of `B`.
    pub fn b(&self) -> String {
        format!("{}.{B}", self.layer)
    }

    /// Adds `scale B A` to elements of the weight from number `first` on; `fan_in_fan_out` says whether it is `[in,
    /// out]`. They are `f64`, so that a sum of several products is rounded once.
    pub fn merge(
        &self,
        (scale, fan_in_fan_out): (f64, bool),
        (a, b): (&[f32], &[f32]),
        first: usize,
        weight: &mut [f64],
    ) {
        let &Adapter {
            rank, inputs, outputs, ..
        } = self;
        for (number, element) in (first..).zip(weight) {
            let (output, input) = if fan_in_fan_out {
                (number % outputs, number / outputs)
            } else {
                (number / inputs, number % inputs)
            };
            let product = |k: usize| f64::from(b[output * rank + k]) * f64::from(a[k * inputs + input]);
            *element += scale * (0..rank).map(product).sum::<f64>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_named_by_their_last_parts() {
        let lora = Lora {
            rank: 2,
            alpha: 4.0,
            rank_stabilized: false,
            dropout: 0.0,
            targets: vec!["query".into(), "output.dense".into()],
            fan_in_fan_out: false,
            base: String::new(),
            whole: "classifier.*".parse().unwrap(),
        };
        for (layer, is_one) in [
            ("query", true),
            ("a.query", true),
            ("a.subquery", false),
            ("a.output.dense", true),
            ("a.dense", false),
            ("a.query.b", false),
        ] {
            assert_eq!(lora.adapts(layer), is_one, "{layer}");
        }
        assert!(lora.trains("a.query.lora_A.weight") && lora.trains("classifier.bias"));
        assert!(!lora.trains("a.query.weight"));
        assert_eq!(
            (lora.scale(), adapter_layer("a.query.lora_B.weight")),
            (2.0, Some("a.query"))
        );
    }
}
