//! Attributes of operations that are written, and numbers without axes.

use lessen_base::{Error, Result};
use lessen_graph::DType;

use super::super::emitter::Emitter;

/// The operation of a node.
///
/// # Errors
/// Another one than its name says.
pub(super) fn attributes<'e, T: lessen_graph::Op>(e: &Emitter<'e>, node: usize) -> Result<&'e T> {
    let op = e.node(node).op.as_ref();
    op.downcast_ref::<T>()
        .ok_or_else(|| Error::internal(format!("`{}` is another operation", op.name())))
}

/// The name of a number without axes, of a dtype that values of the file have.
pub(super) fn scalar(e: &mut Emitter<'_>, dtype: DType, number: f64) -> String {
    e.writer.scalar(dtype, number).unwrap_or_default()
}
