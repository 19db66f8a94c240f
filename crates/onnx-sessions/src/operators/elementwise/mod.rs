//! Functions of single numbers, in every type.

mod activation;
mod arithmetic;
mod bits;
mod cast;
mod comparison;
mod dropout;
mod functions;
mod grain;
mod operands;
mod power;
mod quantization;
mod random;
mod rounding;
mod selection;
mod texts;
mod variadic;

use lessen_onnx::host::HostOperators;

/// The operators of these files.
pub(super) const GROUPS: &[HostOperators] = &[
    activation::OPERATORS,
    arithmetic::OPERATORS,
    bits::OPERATORS,
    cast::OPERATORS,
    comparison::OPERATORS,
    dropout::OPERATORS,
    functions::OPERATORS,
    power::OPERATORS,
    quantization::OPERATORS,
    random::OPERATORS,
    rounding::OPERATORS,
    selection::OPERATORS,
    variadic::OPERATORS,
];
