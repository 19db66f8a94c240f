//! Operators of the domain `ai.onnx.ml`.

mod features;
mod labels;

use super::operators::HostOperators;

/// The operators of these files.
pub(super) const GROUPS: &[HostOperators] = &[features::OPERATORS, labels::OPERATORS];
