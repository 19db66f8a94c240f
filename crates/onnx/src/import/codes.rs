//! Integers of 8 bits in programs: codes, which are the integers themselves where they have no sign, and 128 more where
//! they have one.

use std::collections::BTreeMap;
use std::sync::Arc;

use lessen_graph::Tensor;

use crate::element::Element;
use crate::host::HostTensor;

/// Integers of 8 bits that a program computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codes<'g> {
    /// Their codes.
    pub tensor: Tensor<'g>,
    /// Whether they have a sign.
    pub is_signed: bool,
}

impl Codes<'_> {
    /// The type of the integers.
    pub(crate) fn element(&self) -> Element {
        if self.is_signed {
            Element::Int(1)
        } else {
            Element::Unsigned(1)
        }
    }
}

/// Floats that a file stores as integers with scales.
#[derive(Debug)]
pub(crate) struct Restored {
    /// The name of the integers.
    pub name: String,
    pub integers: Arc<HostTensor>,
    pub scale: Arc<HostTensor>,
    pub zero: Option<Arc<HostTensor>>,
    /// The axis that scales are along.
    pub axis: i64,
    /// The floats.
    pub values: Arc<HostTensor>,
}

/// States of codes by name.
pub(crate) type CodeStates<'g> = BTreeMap<String, (Tensor<'g>, Arc<HostTensor>)>;
