//! Branches, loops and recurrent networks.

mod branches;
mod loops;
mod recurrent;
mod stacked;

use lessen_onnx::host::HostOperators;

/// The operators of these files.
pub(super) const GROUPS: &[HostOperators] = &[branches::OPERATORS, loops::OPERATORS, recurrent::OPERATORS];
