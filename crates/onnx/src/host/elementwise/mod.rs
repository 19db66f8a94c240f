//! Functions of single numbers, in every type.

mod activation;
mod arithmetic;
mod bits;
mod cast;
mod comparison;
mod quantization;
mod rounding;

use super::operators::HostOperators;

/// The operators of these files.
pub(super) const GROUPS: &[HostOperators] = &[
    activation::OPERATORS,
    arithmetic::OPERATORS,
    bits::OPERATORS,
    cast::OPERATORS,
    comparison::OPERATORS,
    quantization::OPERATORS,
    rounding::OPERATORS,
];
