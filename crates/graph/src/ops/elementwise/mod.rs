//! Operations element by element: each element of the output depends on the input elements at its index alone.

pub mod binary;
pub mod cast;
pub mod clamp;
pub mod compare;
pub mod elu;
pub mod gelu;
pub mod helu;
pub mod identity;
pub mod relu;
pub mod select;
pub mod silu;
pub mod unary;

pub use binary::BinaryKind;
pub use compare::CompareKind;
pub use unary::UnaryKind;

operations! {
    binary::{Binary},
    cast::{Cast},
    clamp::{Between, Clamp},
    compare::{Compare},
    elu::{Elu},
    gelu::{Gelu, GeluBackward},
    helu::{Helu},
    identity::{Identity},
    relu::{Relu},
    select::{Select},
    silu::{Silu},
    unary::{Unary},
}
