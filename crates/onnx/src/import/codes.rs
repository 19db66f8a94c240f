//! Integers of 8 bits in programs: codes, which are the integers themselves where they have no sign, and 128 more where
//! they have one.

use std::collections::BTreeMap;
use std::sync::Arc;

use lessen_graph::Tensor;

use crate::element::Element;
use crate::host::HostTensor;

/// Integers of 8 bits that a program computes.
#[derive(Clone, Copy, Debug)]
pub struct Codes {
    /// Their codes.
    pub tensor: Tensor,
    /// Whether they have a sign.
    pub is_signed: bool,
}

impl Codes {
    /// The type of the integers.
    pub fn element(&self) -> Element {
        if self.is_signed {
            Element::Int(1)
        } else {
            Element::Unsigned(1)
        }
    }
}

/// Floats that a file stores as integers with scales.
#[derive(Debug)]
pub struct Restored {
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

/// How a weight lies in a file; its codes are rows, one for each column of the product.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Order {
    /// Columns `[N, K]`.
    Columns,
    /// Rows `[K, N]`.
    Rows,
    /// Kernels `[O, C, KH, KW]` or `[O, C, KW]`, whose codes are `[O, KH KW C]`.
    Kernels,
}

/// What the codes of a weight depend on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CodesKey {
    /// The name of its integers.
    pub name: String,
    pub order: Order,
    /// What is taken from the integers of each column, or of all.
    pub zeros: Vec<i32>,
}

/// States of codes: names, values and elements.
pub type CodeStates = BTreeMap<CodesKey, (String, Tensor, Arc<HostTensor>)>;
