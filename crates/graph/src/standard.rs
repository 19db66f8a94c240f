//! The standard operations, which every device runs and the evaluator knows. Their names are reserved.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::LazyLock;

use lessen_base::{Error, Result};

use crate::named::Standard;
use crate::op::Op;
use crate::ops::{
    attention, bits, collective, contraction, control, convolution, elementwise, index, loss, norm, optimizer, order,
    pooling, random, recurrent, reduction, shape, source,
};
use crate::registry::Registry;

/// The operations, a list for each folder of `ops`.
const OPERATIONS: &[&[Standard]] = &[
    attention::OPERATIONS,
    bits::OPERATIONS,
    contraction::OPERATIONS,
    control::OPERATIONS,
    convolution::OPERATIONS,
    elementwise::OPERATIONS,
    index::OPERATIONS,
    loss::OPERATIONS,
    norm::OPERATIONS,
    optimizer::OPERATIONS,
    order::OPERATIONS,
    pooling::OPERATIONS,
    random::OPERATIONS,
    recurrent::OPERATIONS,
    reduction::OPERATIONS,
    shape::OPERATIONS,
    source::OPERATIONS,
];

/// The types of the operations, by name.
static TYPES: LazyLock<HashMap<&str, TypeId>> = LazyLock::new(|| {
    OPERATIONS
        .iter()
        .copied()
        .flatten()
        .map(|op| (op.name, (op.type_id)()))
        .collect()
});

impl Registry {
    /// All standard operations.
    pub fn standard() -> Registry {
        Registry::of(OPERATIONS.iter().copied().flatten())
    }

    /// All operations of the text form: those of [`Registry::standard`] and the
    /// [collectives](crate::ops::collective), which a device runs as a begin and an end.
    pub fn with_collectives() -> Registry {
        Registry::of(OPERATIONS.iter().copied().flatten().chain(collective::OPERATIONS))
    }

    fn of<'a>(all: impl Iterator<Item = &'a Standard>) -> Registry {
        Registry {
            builders: all.map(|op| (op.name.to_string(), op.build)).collect(),
        }
    }
}

impl dyn Op {
    /// Whether the operation is a standard one.
    pub fn is_standard(&self) -> bool {
        TYPES.get(self.name()) == Some(&self.concrete_type())
    }

    /// Checks that an operation from outside does not bear the name of a standard one.
    pub(crate) fn check_not_reserved(&self) -> Result<()> {
        if self.is_standard() || !TYPES.contains_key(self.name()) {
            return Ok(());
        }
        Err(Error::user(format!(
            "the operation {self:?} bears the name of the standard operation `{}`; rename it",
            self.name()
        )))
    }
}
