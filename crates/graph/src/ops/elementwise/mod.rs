//! Operations element by element: each element of the output depends on the input elements at its index alone.

pub mod binary;
pub mod cast;
pub mod clamp;
pub mod compare;
pub mod elu;
pub mod gelu;
pub mod gelu_from_output;
pub mod helu;
pub mod identity;
pub mod leaky_relu;
pub mod relu;
mod scalar;
pub mod select;
pub mod silu;
pub mod silu_from_output;
mod softplus;
pub mod stop_gradient;
pub mod unary;
mod valley;

pub use binary::BinaryKind;
pub use compare::CompareKind;
pub use scalar::Scalar;
pub use unary::UnaryKind;

operations! {
    binary::{Binary},
    cast::{Cast},
    clamp::{Between, Clamp},
    compare::{Compare},
    elu::{Elu},
    gelu::{Gelu, GeluBackward},
    gelu_from_output::{GeluBackwardFromOutput},
    helu::{Helu},
    identity::{Identity},
    leaky_relu::{LeakyRelu},
    relu::{Relu},
    select::{Select},
    silu::{Silu, SiluBackward},
    silu_from_output::{SiluBackwardFromOutput},
    stop_gradient::{StopGradient},
    unary::{Unary},
}
