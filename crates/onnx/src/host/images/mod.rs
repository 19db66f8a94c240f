//! Convolutions, pooling and other operators on images.

mod boxes;
mod convolution;
mod normalization;
mod pooling;
mod resizing;
mod sampling;

use super::operators::HostOperators;

/// The operators of these files.
pub(super) const GROUPS: &[HostOperators] = &[
    boxes::OPERATORS,
    convolution::OPERATORS,
    normalization::OPERATORS,
    pooling::OPERATORS,
    resizing::OPERATORS,
    sampling::OPERATORS,
];
