//! Products, reductions, norms, attention.

mod attention;
mod causal_conv;
mod contributed;
mod contributed_attention;
mod einsum;
mod fourier;
mod group_query;
mod heads;
mod integers;
pub(super) mod kernel;
mod linear_attention;
mod losses;
mod low_bits;
mod matrix;
mod norms;
mod qlinear;
pub(super) mod quantized;
mod reduction;
mod rotary;
pub(super) mod sizes;
mod skip_norms;
mod softmax;
mod spectrum;
mod training;

use lessen_onnx::host::HostOperators;

/// The operators of these files.
pub(super) const GROUPS: &[HostOperators] = &[
    attention::OPERATORS,
    causal_conv::OPERATORS,
    contributed::OPERATORS,
    contributed_attention::OPERATORS,
    einsum::OPERATORS,
    group_query::OPERATORS,
    linear_attention::OPERATORS,
    losses::OPERATORS,
    low_bits::OPERATORS,
    matrix::OPERATORS,
    norms::OPERATORS,
    qlinear::OPERATORS,
    quantized::OPERATORS,
    reduction::OPERATORS,
    rotary::OPERATORS,
    skip_norms::OPERATORS,
    softmax::OPERATORS,
    spectrum::OPERATORS,
    training::OPERATORS,
];
