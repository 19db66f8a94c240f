//! Activation functions and their names in transformers' `config.json`.

use lessen_graph::Tensor;

/// An elementwise activation function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    /// `x Φ(x)`, with the error function.
    Gelu,
    /// The tanh approximation of GELU, as in GPT-2.
    GeluTanh,
    /// `max(x, 0)`
    Relu,
    /// `x / (1 + exp(-x))`
    Silu,
    /// The hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// All activations.
    pub const ALL: [Activation; 5] = [
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Relu,
        Activation::Silu,
        Activation::Tanh,
    ];

    /// Its names in transformers, which all mean the same function; the first one is written to `config.json`.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Activation::Gelu => &["gelu", "gelu_python"],
            Activation::GeluTanh => &["gelu_new", "gelu_fast", "gelu_pytorch_tanh"],
            Activation::Relu => &["relu"],
            Activation::Silu => &["silu", "swish"],
            Activation::Tanh => &["tanh"],
        }
    }

    /// The name that is written to `config.json`.
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    /// The activation with this name in transformers, if Lessen has it.
    pub fn from_name(name: &str) -> Option<Activation> {
        Activation::ALL
            .into_iter()
            .find(|activation| activation.names().contains(&name))
    }

    /// Applies the activation elementwise.
    pub fn apply(self, x: Tensor<'_>) -> Tensor<'_> {
        match self {
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Relu => x.relu(),
            Activation::Silu => x.silu(),
            Activation::Tanh => x.tanh(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_means_one_activation_and_is_read_back() {
        let mut seen = std::collections::HashSet::new();
        for activation in Activation::ALL {
            for name in activation.names() {
                assert_eq!(Activation::from_name(name), Some(activation), "{name}");
                assert!(seen.insert(name), "{name} is given twice");
            }
        }
        for wrong in ["", "Gelu", "gelu ", "quick_gelu"] {
            assert_eq!(Activation::from_name(wrong), None, "{wrong}");
        }
    }
}
