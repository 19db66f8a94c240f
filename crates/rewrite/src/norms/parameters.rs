//! How the parameters of a converted graph follow from those of the original one.

use std::collections::BTreeMap;

use lessen_graph::ValueId;

use super::facts::Runs;

/// One step of a parameter's transformation. Steps of one parameter are applied in this order; what a step reads of
/// other parameters are their original values.
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
    /// Elements along `axis` are multiplied by those of the state `by`.
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

/// The transformations of states, by state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ParameterChanges {
    steps: BTreeMap<ValueId, Vec<ParameterStep>>,
}

impl ParameterChanges {
    /// Each state that changes, with its steps in order.
    pub fn iter(&self) -> impl Iterator<Item = (ValueId, &[ParameterStep])> {
        self.steps.iter().map(|(state, steps)| (*state, &steps[..]))
    }

    /// The steps of a state; none where it stays as it is.
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

    /// Recentres a state, and leaves out the last position where it is compressed.
    pub(crate) fn centre(&mut self, runs: Runs, is_compressed: bool) {
        self.add(runs.value, ParameterStep::Centre { axis: runs.axis });
        if is_compressed {
            self.add(runs.value, ParameterStep::DropLast { axis: runs.axis });
        }
    }
}
