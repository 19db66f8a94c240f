//! Operators that move elements.

mod gathering;
mod order;
mod padding;
mod scattering;
mod selection;
mod sequences;
mod shape;
mod slicing;
mod sources;
mod texts;

use super::operators::HostOperators;

/// The operators of these files.
pub(super) const GROUPS: &[HostOperators] = &[
    gathering::OPERATORS,
    order::OPERATORS,
    padding::OPERATORS,
    scattering::OPERATORS,
    selection::OPERATORS,
    sequences::OPERATORS,
    shape::OPERATORS,
    slicing::OPERATORS,
    sources::OPERATORS,
    texts::OPERATORS,
];
