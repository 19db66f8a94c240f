//! Inversion: how backward does without a forward value, because it follows from the output of an operation that read
//! it (Tempo's in-place GELU and LayerNorm, in-place activated BatchNorm, additive coupling of RevNets).

use std::sync::Arc;

use crate::graph::{Node, ValueId};
use crate::op::Op;

/// Source of an operand of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// Input `i` of the backward operation.
    Own(usize),
    /// Input `i` of the forward operation.
    ForwardInput(usize),
    /// Output `i` of the forward operation.
    ForwardOutput(usize),
    /// The truth values of [`FromOutput::side`].
    Side,
}

impl Operand {
    /// The value in a graph, given the nodes of the two operations; none for [`Operand::Side`].
    pub fn value(self, backward: &Node, forward: &Node) -> Option<ValueId> {
        match self {
            Operand::Own(i) => backward.inputs.get(i).copied(),
            Operand::ForwardInput(i) => forward.inputs.get(i).copied(),
            Operand::ForwardOutput(i) => forward.outputs.get(i).copied(),
            Operand::Side => None,
        }
    }
}

/// Condition on a value under which the error of a rule holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Condition {
    /// The value.
    pub operand: Operand,
    /// The least magnitude of its elements.
    pub least: f64,
}

/// The results of a backward operation without one of its inputs, from the output of a forward operation whose input 0
/// is the same value. See [`Op::from_output`].
#[derive(Clone, Debug)]
pub struct FromOutput {
    /// The input of the backward operation that need not be there.
    pub input: usize,
    /// The forward operation.
    pub forward: Arc<dyn Op>,
    /// Inputs of the backward operation that must be the same values as operands of the forward operation: two forward
    /// operations may read one value and differ in their other inputs.
    pub same: Vec<(usize, Operand)>,
    /// An elementwise operation on the value alone, with truth values that are kept, where the output does not say
    /// enough.
    pub side: Option<Arc<dyn Op>>,
    /// The operation that is computed instead. It has the outputs of the backward operation.
    pub op: Arc<dyn Op>,
    /// Its inputs.
    pub operands: Vec<Operand>,
    /// The greatest absolute error in `f32` for cotangents of magnitude 1, computed from the output of the forward
    /// operation as a device rounds it. For a norm it is relative to a size that the documentation of `op` names.
    pub error: f64,
    /// Condition under which the error holds.
    pub condition: Option<Condition>,
}

impl FromOutput {
    /// Whether the rule of the operation of `backward` holds with this forward node, which comes before it.
    pub fn fits(&self, backward: &Node, forward: &Node) -> bool {
        let same = |&(own, operand): &(usize, Operand)| operand.value(backward, forward) == Some(backward.inputs[own]);
        forward.op.same(&*self.forward)
            && forward.inputs[0] == backward.inputs[self.input]
            && self.same.iter().all(same)
    }
}

/// An input of a forward operation from its output 0 and its other inputs. See [`Op::inverse`].
#[derive(Clone, Debug)]
pub struct Inverse {
    /// The operation whose output 0 is the input.
    pub op: Arc<dyn Op>,
    /// Its inputs: inputs and outputs of the forward operation.
    pub operands: Vec<Operand>,
    /// The greatest absolute error where no input and output of the forward operation has a magnitude above 1, in their
    /// dtype; 0 where the input has the same bits again.
    pub error: f64,
    /// Condition under which the error holds.
    pub condition: Option<Condition>,
}

impl Inverse {
    /// The input as `op` makes it of the output alone, with the same bits.
    pub(crate) fn exact(op: impl Op) -> Inverse {
        Inverse {
            op: Arc::new(op),
            operands: vec![Operand::ForwardOutput(0)],
            error: 0.0,
            condition: None,
        }
    }
}
