//! Activations by their names in transformers' `config.json`.

use lessen_graph::Tensor;

/// A nonlinearity between two linear layers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    /// `x Φ(x)`, with the error function.
    Gelu,
    /// The approximation of GELU by a tanh, as in GPT-2.
    GeluTanh,
    /// `max(x, 0)`
    Relu,
    /// `x / (1 + exp(-x))`
    Silu,
    /// The hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// The names that [`Activation::from_name`] understands.
    pub const NAMES: [&str; 9] = [
        "gelu",
        "gelu_python",
        "gelu_new",
        "gelu_fast",
        "gelu_pytorch_tanh",
        "relu",
        "silu",
        "swish",
        "tanh",
    ];

    /// The activation that transformers calls by this name.
    pub fn from_name(name: &str) -> Option<Activation> {
        match name {
            "gelu" | "gelu_python" => Some(Activation::Gelu),
            "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" => Some(Activation::GeluTanh),
            "relu" => Some(Activation::Relu),
            "silu" | "swish" => Some(Activation::Silu),
            "tanh" => Some(Activation::Tanh),
            _ => None,
        }
    }

    /// A name that transformers knows it by.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Gelu => "gelu",
            Activation::GeluTanh => "gelu_new",
            Activation::Relu => "relu",
            Activation::Silu => "silu",
            Activation::Tanh => "tanh",
        }
    }

    /// Applies it element by element.
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
