//! Convolutions, pooling and other operators on images.
//!
//! Floats of 16 bits are computed in single precision and rounded once.

mod boxes;
mod columns;
mod convolution;
mod deformable;
mod fused;
mod normalization;
mod pooling;
mod quantized;
mod regions;
mod resizing;
mod sampling;
mod transposed;
mod unpooling;
mod windows;

use lessen_onnx::host::HostOperators;

/// The operators of these files.
pub(super) const GROUPS: &[HostOperators] = &[
    boxes::OPERATORS,
    convolution::OPERATORS,
    deformable::OPERATORS,
    fused::OPERATORS,
    normalization::OPERATORS,
    pooling::OPERATORS,
    quantized::OPERATORS,
    regions::OPERATORS,
    resizing::OPERATORS,
    sampling::OPERATORS,
    transposed::OPERATORS,
    unpooling::OPERATORS,
];
