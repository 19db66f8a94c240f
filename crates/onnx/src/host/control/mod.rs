//! Branches, loops and recurrent networks.

mod branches;
mod loops;
mod recurrent;
mod stacked;

use super::call::HostOperators;

/// The operators of these files.
pub(super) const GROUPS: &[HostOperators] = &[branches::OPERATORS, loops::OPERATORS, recurrent::OPERATORS];
