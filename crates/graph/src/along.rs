//! Structure of an operation's results along one axis: the rules by which a compiler proves that a mean is redundant
//! (Jiang et al. 2023, section 3.1.3).
//!
//! A *run* is the elements of a value along one axis, the positions along all others being fixed.

use std::sync::Arc;

use crate::op::Op;
use crate::types::Type;

/// Structure of the runs of an output along an axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Along {
    /// Nothing.
    Unknown,
    /// The elements of each run are equal.
    Constant,
    /// The sum of each run is zero.
    Centred,
    /// Each run is a linear combination of runs of the listed inputs along the listed axes, `(input, axis)`, which have
    /// the same extent. The factors depend on other inputs alone, so that a number added to all elements of a run of an
    /// input adds a number to all elements of runs of the output.
    Linear(Vec<(usize, usize)>),
    /// Each run is the product, element by element, of the runs of the two inputs along this axis.
    Product,
}

/// Facts that a rule about an axis may ask for.
#[derive(Clone, Copy, Debug)]
pub struct AlongQuery<'a> {
    /// The position of the output.
    pub output: usize,
    /// The axis of the output.
    pub axis: usize,
    /// For each input of the output's shape whether its runs along the axis are known to be constant; false for others.
    pub constant: &'a [bool],
    /// The number that fills an input, where one does.
    pub known: &'a [Option<f64>],
    /// Types of the inputs.
    pub inputs: &'a [Type],
    /// Types of the outputs.
    pub outputs: &'a [Type],
}

impl AlongQuery<'_> {
    /// Whether the axis is the last one of the output.
    pub fn is_last(&self) -> bool {
        self.axis + 1 == self.outputs[self.output].rank()
    }

    /// The rule of an output whose runs along the axis are sums of its inputs' runs along the same axis, with factors
    /// that do not depend on the position.
    pub fn same_axis(&self) -> Along {
        Along::Linear((0..self.inputs.len()).map(|input| (input, self.axis)).collect())
    }

    /// [`AlongQuery::same_axis`], unless it is the axis that an operation cuts or joins.
    pub fn unless_cut(&self, axis: usize) -> Along {
        if self.axis == axis {
            Along::Unknown
        } else {
            self.same_axis()
        }
    }

    /// The rule of an output whose only such input is input 0.
    pub fn of_first(&self, axis: usize) -> Along {
        Along::Linear(vec![(0, axis)])
    }
}

/// A sum of products over an axis of one input and an axis of another, as in a linear layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contraction {
    /// The axis of the input that was asked about.
    pub axis: usize,
    /// The other input, and the axis of it that is added up.
    pub other: (usize, usize),
    /// The axis of the other input that the output has as its last one.
    pub results: usize,
}

/// Replacement of a norm whose input 0 has runs with mean zero along the last axis: a norm that subtracts no mean, with
/// the same scale, and the shift added to its result.
#[derive(Clone, Debug)]
pub struct WhenCentred {
    /// Takes the input and the scale.
    pub norm: Arc<dyn Op>,
    /// Takes all but the last element of each run of the input, and of the scale; gives all but the last of the result.
    pub compressed: Arc<dyn Op>,
    /// The input that holds the scale.
    pub scale: usize,
    /// The input that holds the shift.
    pub shift: usize,
}
