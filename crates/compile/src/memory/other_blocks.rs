//! The operation that stands in a [sample](super::sample) for all blocks but its own.

use lessen_base::Result;
use lessen_graph::{Node, Op, Type};

/// The blocks that a node of a sample stands for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum OtherBlocks {
    /// Forward parts of the blocks before: they compute the sample's entries.
    ForwardBefore,
    /// Forward parts and stages of the blocks after: they read the values that the block passes on, and return its
    /// gradients. They also have a number as a result, so that they run where no gradient is returned.
    After,
    /// Stages of the blocks before: they read an entry that the block has inverted.
    BackwardBefore,
}

/// The computation of other blocks. Only the types of its results are known.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OtherBlocksOp {
    pub which: OtherBlocks,
    pub outputs: Vec<Type>,
}

impl Op for OtherBlocksOp {
    fn name(&self) -> &'static str {
        "other_blocks"
    }

    fn infer(&self, _: &[Type]) -> Result<Vec<Type>> {
        Ok(self.outputs.clone())
    }
}

/// The blocks that a node of a sample stands for; none for a node of the block itself.
pub(super) fn other_blocks(node: &Node) -> Option<OtherBlocks> {
    node.op.downcast_ref::<OtherBlocksOp>().map(|op| op.which)
}
