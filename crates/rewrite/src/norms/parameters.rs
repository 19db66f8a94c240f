//! The steps from the parameters of a graph to the parameters of the converted graph.

use std::collections::BTreeMap;

use lessen_graph::ValueId;

use super::facts::Lines;

/// A step of a parameter. The steps of one parameter are applied in the order of the variants below; a step reads the
/// original values of other parameters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ParameterStep {
    /// `b[j] += sum_k w[k, j] v[k]`: the state `vector` times the matrix `weight`, a state whose axis `inner` is `k`,
    /// and whose only other axis with more than one element is `j`.
    AddProduct {
        /// The matrix.
        weight: ValueId,
        /// The axis of the matrix that is added up.
        inner: usize,
        /// The factors.
        vector: ValueId,
    },
    /// Elements along `axis` are multiplied by the elements of the state `by`.
    Scale {
        /// The axis.
        axis: usize,
        /// One factor for each position.
        by: ValueId,
    },
    /// The last element along `axis` is subtracted from all others, and left out.
    LessLast {
        /// The axis.
        axis: usize,
    },
    /// The mean along `axis` is subtracted.
    Centre {
        /// The axis.
        axis: usize,
    },
    /// The last element along `axis` is left out.
    DropLast {
        /// The axis.
        axis: usize,
    },
}

/// The steps of all states that change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ParameterChanges {
    steps: BTreeMap<ValueId, Vec<ParameterStep>>,
}

impl ParameterChanges {
    /// Each state that changes, with its steps in order.
    pub fn iter(&self) -> impl Iterator<Item = (ValueId, &[ParameterStep])> {
        self.steps.iter().map(|(state, steps)| (*state, &steps[..]))
    }

    /// The steps of a state; none where it does not change.
    pub fn of(&self, state: ValueId) -> &[ParameterStep] {
        self.steps.get(&state).map_or(&[], |steps| steps)
    }

    /// The shape of a state of this shape after its steps.
    pub fn shape(&self, state: ValueId, shape: &[usize]) -> Vec<usize> {
        let mut shape = shape.to_vec();
        for step in self.of(state) {
            if let ParameterStep::LessLast { axis } | ParameterStep::DropLast { axis } = *step {
                shape[axis] -= 1;
            }
        }
        shape
    }

    /// Adds a step, once.
    pub(crate) fn add(&mut self, state: ValueId, step: ParameterStep) {
        let steps = self.steps.entry(state).or_default();
        if let Err(at) = steps.binary_search(&step) {
            steps.insert(at, step);
        }
    }

    /// Recentres a state, and leaves out its last position where it is compressed.
    pub(crate) fn centre(&mut self, lines: Lines, is_compressed: bool) {
        self.add(lines.value, ParameterStep::Centre { axis: lines.axis });
        if is_compressed {
            self.add(lines.value, ParameterStep::DropLast { axis: lines.axis });
        }
    }
}
