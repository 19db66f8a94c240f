//! The operations that are written to a file, each by a function.
//!
//! An operation without one is written as its decomposition. A new operation is a function and a line in the
//! `OPERATIONS` of its file.

mod attention;
mod elementwise;
mod images;
mod indexing;
mod movement;
mod norms;
mod parameters;
mod products;
mod rope;
mod rows;
mod sources;

use std::collections::HashMap;
use std::sync::LazyLock;

use lessen_base::Result;
use lessen_graph::Op;

use super::emitter::Emitter;

pub(super) use self::products::only_transposed;

/// Writes a node of the graph, by its place.
pub(super) type Emit = fn(&mut Emitter<'_>, usize) -> Result<()>;

/// An operation of a graph in a file.
pub(super) struct Operation {
    /// The name of the operation.
    pub name: &'static str,
    /// Whether it is written as it is, and not as its decomposition.
    pub fits: fn(&dyn Op) -> bool,
    /// Writes a node.
    pub emit: Emit,
}

/// An operation that is written with all of its attributes.
const fn always(name: &'static str, emit: Emit) -> Operation {
    Operation {
        name,
        fits: |_| true,
        emit,
    }
}

const GROUPS: [&[Operation]; 10] = [
    attention::OPERATIONS,
    elementwise::OPERATIONS,
    images::OPERATIONS,
    indexing::OPERATIONS,
    movement::OPERATIONS,
    norms::OPERATIONS,
    products::OPERATIONS,
    rope::OPERATIONS,
    rows::OPERATIONS,
    sources::OPERATIONS,
];

static BY_NAME: LazyLock<HashMap<&str, &Operation>> = LazyLock::new(|| {
    let all = GROUPS.into_iter().flatten();
    all.map(|operation| (operation.name, operation)).collect()
});

/// The function that writes an operation; none where it has no form in a file.
pub(super) fn operation(op: &dyn Op) -> Option<Emit> {
    let found = BY_NAME.get(op.name()).filter(|operation| (operation.fits)(op));
    found.map(|operation| operation.emit)
}
