//! Products, reductions, norms, attention.

mod attention;
mod contributed;
mod einsum;
mod losses;
mod matrix;
mod norms;
mod reduction;
mod softmax;
mod spectrum;

use super::operators::HostOperators;

/// The operators of these files.
pub(super) const GROUPS: &[HostOperators] = &[
    attention::OPERATORS,
    contributed::OPERATORS,
    einsum::OPERATORS,
    losses::OPERATORS,
    matrix::OPERATORS,
    norms::OPERATORS,
    reduction::OPERATORS,
    softmax::OPERATORS,
    spectrum::OPERATORS,
];
