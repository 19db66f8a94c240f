//! The position bias of FIRE (Li et al. 2024): its settings and its parameters.

use lessen_base::Result;
use lessen_graph::ops::attention::{FIRE_LENGTH, Fire, FireMiddle, PositionBias};
use lessen_graph::{DType, Tensor};
use serde_json::{Map, Value};

use crate::config::{Fields, put_own};
use crate::context::Cx;
use crate::init::Init;

/// Initial value of the parameter `c`; `l` begins as 1.
const C: f64 = 0.1;

const OWN_WIDTH: &str = "lessen_fire_width";
const OWN_LAYERS: &str = "lessen_fire_layers";
const OWN_LENGTH: &str = "lessen_fire_length";
const OWN_LENGTH_LEARNED: &str = "lessen_fire_length_learned";
const OWN_SHARED: &str = "lessen_fire_shared";

/// The function of FIRE: the bias of a query at position `i` for a key at position `j` is `f(psi(|i - j|) / psi(max(L,
/// i)))`, `psi(x) = log(|c x| + 1)`, with a network `f` of one input and an output for each head.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FireConfig {
    /// Width of each hidden layer of `f`.
    pub width: usize,
    /// Hidden layers of `f`: 1 or 2. The fused kernels of attention have one; with 2, attention is made of simple
    /// operations and its scores are values in memory.
    pub layers: usize,
    /// `L`, in tokens, or what it begins as where it is learned. Above 0.
    pub length: f64,
    /// Whether `L` is learned: it is `|l|` times `length` for a parameter `l`, initially 1.
    pub length_learned: bool,
    /// Whether all layers of the model share the parameters, or each has its own.
    pub shared: bool,
}

impl FireConfig {
    /// One hidden layer of width 32, a learned length that begins as 512, shared parameters.
    pub const DEFAULT: FireConfig = FireConfig {
        width: 32,
        layers: 1,
        length: FIRE_LENGTH,
        length_learned: true,
        shared: true,
    };

    /// Most hidden layers of `f`.
    pub const MOST_LAYERS: usize = 2;

    /// Reads the fields that [`FireConfig::put`] writes; `self` has the values of a model without such fields.
    ///
    /// # Errors
    /// A field that is no such setting.
    pub(crate) fn with_fields(self, fields: &Fields) -> Result<FireConfig> {
        let layers = fields.size_or(OWN_LAYERS, self.layers)?;
        if layers > FireConfig::MOST_LAYERS {
            return Err(fields.error(OWN_LAYERS, format!("must be 1 or 2, it is {layers}")));
        }
        Ok(FireConfig {
            width: fields.size_or(OWN_WIDTH, self.width)?,
            layers,
            length: fields.positive_or(OWN_LENGTH, self.length)?,
            length_learned: fields.switch_or(OWN_LENGTH_LEARNED, self.length_learned)?,
            shared: fields.switch_or(OWN_SHARED, self.shared)?,
        })
    }

    /// Writes the settings of a model with FIRE in fields that transformers ignores, those that are usual left out; of
    /// another model it takes the fields away.
    pub(crate) fn put(&self, has_fire: bool, map: &mut Map<String, Value>) {
        let usual = FireConfig::DEFAULT;
        for (field, is_written, value) in [
            (OWN_WIDTH, true, Value::from(self.width)),
            (OWN_LAYERS, self.layers != usual.layers, Value::from(self.layers)),
            (OWN_LENGTH, self.length != usual.length, Value::from(self.length)),
            (
                OWN_LENGTH_LEARNED,
                !self.length_learned,
                Value::from(self.length_learned),
            ),
            (OWN_SHARED, true, Value::from(self.shared)),
        ] {
            put_own(map, field, (has_fire && is_written).then_some(value));
        }
    }

    /// Declares the parameters in the scope `fire`: `c`, `l` where the length is learned, `w1` and `b1` of the first
    /// layer, `w_middle` and `b_middle` of a second one, `w2` and `b2` of the output. Linear layers begin with the
    /// initial values of PyTorch's `nn.Linear`.
    pub(crate) fn parameters(&self, cx: Cx, heads: usize) -> PositionBias {
        let width = self.width;
        let from_hidden = Init::Uniform {
            bound: 1.0 / (width as f64).sqrt(),
        };
        let first = Init::Uniform { bound: 1.0 };
        cx.scope("fire", |cx| {
            let fire = Fire {
                c: cx.param("c", &[], Init::Constant(C)),
                l: self.multiplier(cx),
                w1: cx.param("w1", &[width], first),
                b1: cx.param("b1", &[width], first),
                w2: cx.param("w2", &[heads, width], from_hidden),
                b2: cx.param("b2", &[heads], from_hidden),
            };
            if self.layers == 1 {
                return PositionBias::Fire(fire);
            }
            let middle = FireMiddle {
                w: cx.param("w_middle", &[width, width], from_hidden),
                b: cx.param("b_middle", &[width], from_hidden),
            };
            PositionBias::DeepFire(fire, middle)
        })
    }

    /// The factor of [`FIRE_LENGTH`] that gives the length.
    fn multiplier(&self, cx: Cx) -> Tensor {
        let part = self.length / FIRE_LENGTH;
        if !self.length_learned {
            return cx.trace().full(DType::F32, &[], part);
        }
        let l = cx.param("l", &[], Init::Ones);
        if part == 1.0 { l } else { l * part }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use lessen_graph::ops::attention::{AttentionOptions, attention};
    use lessen_graph::{Array, Graph, Trace, Type, evaluate_exactly};

    use super::*;
    use crate::weights::initialize;

    const TOKENS: usize = 9;
    const HEADS: usize = 2;
    type Arrays = HashMap<String, Array>;

    /// Settings whose length is below most positions: one hidden layer and two, a length that is learned or not.
    fn configs() -> Vec<FireConfig> {
        let config = |(layers, length_learned)| FireConfig {
            width: 5,
            layers,
            length: 3.0,
            length_learned,
            shared: true,
        };
        [(1, true), (1, false), (2, true), (2, false)].map(config).to_vec()
    }

    /// Sigmoids of the biases of all heads, queries and keys, a loss of them, and its derivatives in the parameters;
    /// and values of the parameters. A query sees the keys after it, too.
    fn built(config: FireConfig) -> (Graph, Arrays) {
        let trace = Trace::new();
        let cx = Cx::new(*trace, false);
        let bias = config.parameters(cx, HEADS);
        let nothing = trace.full(DType::F32, &[1, TOKENS, HEADS, 1], 0.0);
        let each_key = Array::from_fn(Type::f32(&[1, TOKENS, HEADS, TOKENS]), |at| f64::from(at[1] == at[3]));
        let options = AttentionOptions {
            weighting: "sigmoid".parse().unwrap(),
            bias,
            ..AttentionOptions::default()
        };
        let found = attention(nothing, nothing, trace.constant(each_key), options);
        trace.output("sigmoids", found);
        let loss = (found * found * found).sum();
        trace.output("loss", loss);
        let parameters = cx.params();
        let tensors: Vec<Tensor> = parameters.iter().map(|own| trace.tensor(own.value)).collect();
        for (parameter, derivative) in parameters.iter().zip(loss.grad(&tensors)) {
            trace.output(&parameter.name, derivative);
        }
        let mut given: Arrays = initialize(&parameters, 4)
            .into_iter()
            .map(|(name, weight)| {
                let data = weight.data.iter().map(|&value| value.into()).collect();
                (name, Array::f32(&weight.shape, data))
            })
            .collect();
        if let Some(l) = given.get_mut("fire.l") {
            l.data = vec![-1.4];
        }
        (trace.finish(), given)
    }

    /// The bias by the equation of the paper.
    fn bias(config: FireConfig, given: &Arrays, head: usize, [i, j]: [usize; 2]) -> f64 {
        let of = |name: &str| &given[&format!("fire.{name}")];
        let c = of("c").item();
        let length = if config.length_learned {
            (of("l").item() * config.length).abs()
        } else {
            config.length
        };
        let psi = |x: f64| ((c * x).abs() + 1.0).ln();
        let u = psi(i.abs_diff(j) as f64) / (psi(length.max(i as f64)) + 1e-6);
        let layer = |w: &Array, b: &Array, x: &[f64], row: usize| {
            let row_of_w = &w.data[row * x.len()..][..x.len()];
            b.data[row] + row_of_w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>()
        };
        let relu = |w: &str, b: &str, x: &[f64]| -> Vec<f64> {
            (0..config.width)
                .map(|row| layer(of(w), of(b), x, row).max(0.0))
                .collect()
        };
        let mut hidden = relu("w1", "b1", &[u]);
        if config.layers == 2 {
            hidden = relu("w_middle", "b_middle", &hidden);
        }
        layer(of("w2"), of("b2"), &hidden, head)
    }

    #[test]
    fn biases_are_those_of_the_equation_before_and_beyond_the_length() {
        for config in configs() {
            let (graph, given) = built(config);
            let found = &evaluate_exactly(&graph, &given).unwrap()["sigmoids"];
            for head in 0..HEADS {
                for at in (0..TOKENS * TOKENS).map(|at| [at / TOKENS, at % TOKENS]) {
                    let expected = 1.0 / (1.0 + (-bias(config, &given, head, at)).exp());
                    let found = found.at(&[0, at[0], head, at[1]]);
                    assert!(
                        (found - expected).abs() < 1e-12,
                        "{config:?}, head {head}, {at:?}: {found}, {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn derivatives_in_all_parameters_are_the_differences() {
        for config in configs() {
            let (graph, given) = built(config);
            let derivatives = evaluate_exactly(&graph, &given).unwrap();
            assert_eq!(given.contains_key("fire.l"), config.length_learned);
            for (name, values) in &given {
                for at in 0..values.data.len() {
                    let step = 1e-5;
                    let [above, below] = [step, -step].map(|step| {
                        let mut moved = given.clone();
                        moved.get_mut(name).unwrap().data[at] += step;
                        evaluate_exactly(&graph, &moved).unwrap()["loss"].item()
                    });
                    let (found, expected) = (derivatives[name].data[at], (above - below) / (2.0 * step));
                    assert!(
                        (found - expected).abs() < 1e-7,
                        "{config:?}, {name}[{at}]: {found}, {expected}"
                    );
                }
            }
            if config.length_learned {
                assert_ne!(derivatives["fire.l"].item(), 0.0);
            }
        }
    }
}
