//! Operators that move elements.

mod axes;
mod elements;
mod extents;
mod gathering;
mod order;
mod padding;
mod patterns;
mod scattering;
mod selection;
mod sequences;
mod shape;
mod slicing;
mod sources;
mod terms;
mod texts;
mod walk;

use lessen_onnx::host::HostOperators;

/// The operators of these files.
pub(super) const GROUPS: &[HostOperators] = &[
    axes::OPERATORS,
    gathering::OPERATORS,
    order::OPERATORS,
    padding::OPERATORS,
    scattering::OPERATORS,
    selection::OPERATORS,
    sequences::OPERATORS,
    shape::OPERATORS,
    slicing::OPERATORS,
    sources::OPERATORS,
    terms::OPERATORS,
    texts::OPERATORS,
];
