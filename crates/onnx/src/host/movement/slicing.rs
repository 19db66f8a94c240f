//! Operators of this file.

use crate::host::HostOperators;

pub(crate) const OPERATORS: HostOperators = &[];
