//! Activation functions: their words in recipes and checkpoints, and their names in transformers' `config.json`.

use std::fmt;
use std::str::FromStr;

use lessen_base::{Error, Result};
use lessen_graph::Tensor;

/// An elementwise activation function.
///
/// As a word: `gelu`, `gelu_new`, `relu`, `relu6`, `silu`, `hardswish`, `tanh`, `elu` (alpha 1), `elu:ALPHA`,
/// `helu:ALPHA`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Activation {
    /// `x Φ(x)`, with the error function.
    Gelu,
    /// The tanh approximation of GELU, as in GPT-2.
    GeluTanh,
    /// `max(x, 0)`
    Relu,
    /// `max(x, 0)`, at most 6 (Howard et al. 2017).
    Relu6,
    /// `x / (1 + exp(-x))`
    Silu,
    /// `x` times `x / 6 + 1/2` from 0 to 1 (Howard et al. 2019).
    HardSwish,
    /// The hyperbolic tangent.
    Tanh,
    /// `x` where `x > 0`, `alpha (exp(x) - 1)` elsewhere (Clevert, Unterthiner and Hochreiter 2015), with its alpha.
    Elu(f64),
    /// ReLU whose derivative is 1 where `x > -alpha`, with its alpha; see [`Helu`](lessen_graph::ops::Helu).
    Helu(f64),
}

/// Activations and their names, which all mean the same function; the first one is written.
const NAMED: [(Activation, &[&str]); 8] = [
    (Activation::Gelu, &["gelu", "gelu_python"]),
    (Activation::GeluTanh, &["gelu_new", "gelu_fast", "gelu_pytorch_tanh"]),
    (Activation::Relu, &["relu"]),
    (Activation::Relu6, &["relu6"]),
    (Activation::Silu, &["silu", "swish"]),
    (Activation::HardSwish, &["hardswish"]),
    (Activation::Tanh, &["tanh"]),
    (Activation::Elu(1.0), &["elu"]),
];

/// An activation from its alpha.
type OfAlpha = fn(f64) -> Activation;

/// Activations that take a parameter.
const WITH_ALPHA: [(&str, OfAlpha); 2] = [("elu", Activation::Elu), ("helu", Activation::Helu)];

impl Activation {
    /// All words, for messages.
    pub fn words() -> String {
        let named = NAMED
            .iter()
            .flat_map(|(_, names)| names.iter().map(|name| name.to_string()));
        let with_alpha = WITH_ALPHA.iter().map(|(name, _)| format!("{name}:ALPHA"));
        let all: Vec<String> = named.chain(with_alpha).collect();
        format!("{} with a number ALPHA from 0 on", all.join(", "))
    }

    /// The name for transformers' `config.json`: the activation's own name, or `relu` for an activation that
    /// transformers does not have. HeLU has the values of ReLU, ELU has them above 0 only.
    pub fn transformers_name(self) -> &'static str {
        let known = match self {
            Activation::Elu(_) | Activation::Helu(_) => Activation::Relu,
            activation => activation,
        };
        let named = NAMED.iter().find(|(activation, _)| *activation == known);
        named.map_or("", |(_, names)| names[0])
    }

    /// Applies the activation elementwise.
    #[track_caller]
    pub fn apply(self, x: Tensor) -> Tensor {
        match self {
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Relu => x.relu(),
            Activation::Relu6 => relu6(x),
            Activation::Silu => x.silu(),
            Activation::HardSwish => x * hard_sigmoid(x),
            Activation::Tanh => x.tanh(),
            Activation::Elu(alpha) => x.elu(alpha),
            Activation::Helu(alpha) => x.helu(alpha),
        }
    }
}

/// `max(x, 0)`, at most 6. The derivative is 0 at 0 and at 6, as PyTorch's is.
#[track_caller]
fn relu6(x: Tensor) -> Tensor {
    x.clamp(0.0, 6.0)
}

/// `x / 6 + 1/2` from 0 to 1.
#[track_caller]
pub(crate) fn hard_sigmoid(x: Tensor) -> Tensor {
    relu6(x + 3.0) * (1.0 / 6.0)
}

impl fmt::Display for Activation {
    /// As a word that [`Activation::from_str`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((_, names)) = NAMED.iter().find(|(activation, _)| activation == self) {
            return f.write_str(names[0]);
        }
        match self {
            Activation::Elu(alpha) => write!(f, "elu:{alpha}"),
            Activation::Helu(alpha) => write!(f, "helu:{alpha}"),
            _ => f.write_str(self.transformers_name()),
        }
    }
}

impl FromStr for Activation {
    type Err = Error;

    /// Reads a word.
    ///
    /// # Errors
    /// An unknown name, or an alpha that is missing, negative, or beyond `f32`.
    fn from_str(word: &str) -> Result<Activation> {
        if let Some((activation, _)) = NAMED.iter().find(|(_, names)| names.contains(&word)) {
            return Ok(*activation);
        }
        let (name, alpha) = word.split_once(':').unwrap_or((word, ""));
        let with_alpha = WITH_ALPHA.iter().find(|(known, _)| *known == name);
        let alpha = alpha
            .parse()
            .ok()
            .filter(|alpha| (0.0..=f64::from(f32::MAX)).contains(alpha));
        match with_alpha.zip(alpha) {
            // The sum with 0 is never -0.
            Some(((_, make), alpha)) => Ok(make(alpha + 0.0)),
            None => Err(Error::user(format!(
                "there is no activation `{word}`; choose one of {}",
                Activation::words()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_means_one_activation_and_is_read_back() {
        let mut seen = std::collections::HashSet::new();
        for (activation, names) in NAMED {
            assert_eq!(activation.to_string(), names[0]);
            for name in names {
                assert_eq!(name.parse(), Ok(activation), "{name}");
                assert!(seen.insert(name), "{name} is given twice");
            }
        }
        for (word, activation, transformers) in [
            ("elu", Activation::Elu(1.0), "relu"),
            ("elu:0.5", Activation::Elu(0.5), "relu"),
            ("helu:0.05", Activation::Helu(0.05), "relu"),
            ("helu:0", Activation::Helu(0.0), "relu"),
            ("helu:2", Activation::Helu(2.0), "relu"),
        ] {
            assert_eq!(word.parse(), Ok(activation));
            assert_eq!(activation.to_string(), word);
            assert_eq!(activation.transformers_name(), transformers);
        }
        assert_eq!("elu:1.0".parse(), Ok(Activation::Elu(1.0)));
        assert_eq!("helu:-0".parse::<Activation>().unwrap().to_string(), "helu:0");
    }

    #[test]
    fn other_words_are_refused_with_all_that_there_are() {
        for wrong in [
            "",
            "Gelu",
            "gelu ",
            "quick_gelu",
            "helu",
            "helu:",
            "helu:-0.1",
            "helu:nan",
            "helu:inf",
            "helu:1e39",
            "elu:x",
            "gelu:1",
            "helu:0.1:0.1",
        ] {
            assert_eq!(
                wrong.parse::<Activation>().unwrap_err().to_string(),
                format!(
                    "there is no activation `{wrong}`; choose one of gelu, gelu_python, gelu_new, gelu_fast, \
                     gelu_pytorch_tanh, relu, relu6, silu, swish, hardswish, tanh, elu, elu:ALPHA, helu:ALPHA with a \
                     number ALPHA from 0 on"
                )
            );
        }
    }
}
