//! What stands in a [sample](super::sample) for the blocks beside its own.

use lessen_base::Result;
use lessen_graph::{Node, Op, Type};

/// Other blocks than a sample's own, in a phase.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Who {
    /// The blocks before, in the forward phase: they give the values that lead into the block.
    Before,
    /// The blocks behind, in both phases: they read what the block passes on, and give the gradients that come back,
    /// and a number as a result, so that they run where nothing comes back.
    Behind,
    /// The blocks before, in the backward phase: they read a value that leads into the block and that it inverts.
    Again,
}

/// What other blocks compute.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Others {
    pub who: Who,
    pub outputs: Vec<Type>,
}

impl Op for Others {
    fn name(&self) -> &'static str {
        "others"
    }

    fn infer(&self, _: &[Type]) -> Result<Vec<Type>> {
        Ok(self.outputs.clone())
    }
}

/// The blocks that a node of a sample stands for, if it stands for others.
pub(super) fn others(node: &Node) -> Option<Who> {
    node.op.downcast_ref::<Others>().map(|others| others.who)
}
