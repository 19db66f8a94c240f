//! Operators of the domain `ai.onnx.ml`.

mod features;
mod labels;
mod transforms;
mod trees;

use lessen_onnx::host::HostOperators;

/// The operators of these files.
pub(super) const GROUPS: &[HostOperators] = &[features::OPERATORS, labels::OPERATORS, trees::OPERATORS];
