//! Rows of tables by their numbers.

use lessen_base::Result;
use lessen_graph::Named;
use lessen_graph::ops::Gather;

use super::{Operation, always};
use crate::export::emitter::Emitter;
use crate::export::writer::int;

pub(super) const OPERATIONS: &[Operation] = &[always(Gather::NAME, gather)];

fn gather(e: &mut Emitter<'_>, node: usize) -> Result<()> {
    let (inputs, output) = (&e.node(node).inputs, e.node(node).outputs[0]);
    let (table, ids) = (e.plain(inputs[0])?, e.plain(inputs[1])?);
    let name = e.writer.one("Gather", &[&table, &ids], vec![int("axis", 0)]);
    e.set(output, name);
    Ok(())
}
