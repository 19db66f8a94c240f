//! LoRA (Hu et al. 2021): the weights of linear layers stay as they are, and a product of two small matrices is trained
//! beside each.

use lessen_graph::Tensor;

use crate::context::{Context, ParamSpec};
use crate::init::Init;
use crate::patterns::Patterns;

/// What the first matrix of an adapter is called, under the name of its layer.
const A: &str = "lora_A.weight";

/// What the second one is called.
const B: &str = "lora_B.weight";

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
    /// Dropout of what `A` is applied to, in training.
    pub dropout: f64,
    /// The layers: their names, or the last parts of them, such as `query`.
    pub targets: Vec<String>,
    /// Whether the weights of the layers have the shape `[in, out]`, as GPT-2 has them ([`conv1d`]), not `[out, in]`
    /// ([`linear`]).
    ///
    /// [`conv1d`]: crate::layers::conv1d
    /// [`linear`]: crate::layers::linear
    pub fan_in_fan_out: bool,
    /// The folder of the model that the adapters are for, for `adapter_config.json`.
    pub base: String,
    /// Parameters that are trained as they are beside the adapters, such as those of a new head.
    pub whole: Patterns,
}

impl Lora {
    /// The factor of the product.
    pub fn scale(&self) -> f64 {
        scale(self.alpha, self.rank, self.rank_stabilized)
    }

    /// Whether a layer gets an adapter.
    pub fn adapts(&self, layer: &str) -> bool {
        let is = |target: &String| layer.strip_suffix(target.as_str()).is_some_and(ends_part);
        self.targets.iter().any(is)
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

/// Whether what stands before the last parts of a name is nothing, or whole parts.
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
    /// Columns of `A`: the width of what the layer reads.
    pub inputs: usize,
    /// Rows of `B`: the width of what the layer gives.
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
            Some(Adapter {
                layer: layer.to_string(),
                rank: a[0],
                inputs: a[1],
                outputs: b[0],
            })
        };
        layers.filter_map(adapter).collect()
    }

    /// An adapter of rank 0 for the layer of a parameter; none where that is no matrix of a layer. `fan_in_fan_out`
    /// says how it lies.
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

    /// Adds `scale B A` to elements of the weight from number `first` on; `fan_in_fan_out` says how it lies.
    pub fn merge(
        &self,
        (scale, fan_in_fan_out): (f64, bool),
        (a, b): (&[f32], &[f32]),
        first: usize,
        weight: &mut [f32],
    ) {
        let &Adapter {
            rank, inputs, outputs, ..
        } = self;
        for (number, element) in (first..).zip(weight) {
            let (output, input) = match fan_in_fan_out {
                false => (number / inputs, number % inputs),
                true => (number % outputs, number / outputs),
            };
            let product = |k: usize| f64::from(b[output * rank + k]) * f64::from(a[k * inputs + input]);
            *element = (f64::from(*element) + scale * (0..rank).map(product).sum::<f64>()) as f32;
        }
    }
}

/// `y` and the product of the adapter that the layer of this context has, if it has one: `x` is the input of the layer.
/// `fan_in_fan_out` says how its weight lies.
///
/// # Panics
/// If it has one and its weight lies otherwise than LoRA assumes.
#[track_caller]
pub(crate) fn adapt<'g>(cx: &Context<'g>, x: Tensor<'g>, y: Tensor<'g>, fan_in_fan_out: bool) -> Tensor<'g> {
    let Some(lora) = cx.lora().filter(|lora| lora.adapts(cx.prefix())) else {
        return y;
    };
    assert_eq!(
        lora.fan_in_fan_out,
        fan_in_fan_out,
        "the weight of the layer `{}` lies otherwise than `fan_in_fan_out` says",
        cx.prefix()
    );
    let (inputs, outputs) = (x.dim(-1), y.dim(-1));
    let bound = 1.0 / (inputs as f64).sqrt();
    let a = cx.param(A, &[lora.rank, inputs], Init::Uniform { bound });
    let b = cx.param(B, &[outputs, lora.rank], Init::Zeros);
    let inner = cx.dropout(x, lora.dropout).matmul_t(a) * lora.scale();
    y + inner.matmul_t(b)
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
