//! Recurrent networks: a task takes some sequences of the batch through all steps.
//!
//! The product of a step is one of few rows, whose bits do not depend on the number of rows, so that slices of a batch
//! give the bits of the whole. Sums of a step are read before its gates are written over them.

mod gru;
mod lstm;

use lessen_graph::ops::RecurrentSizes;

use super::products::few_rows::{FEW, few_rows};
use super::rows::Rows;

pub(super) use gru::{gru_backward_kernel, gru_kernel};
pub(super) use lstm::{lstm_backward_kernel, lstm_kernel};

/// Sequences of a task.
const SEQUENCES: usize = FEW;

/// The sequences of a task, and the steps that they take.
#[derive(Clone, Copy)]
struct Block {
    /// The first sequence.
    first: usize,
    /// The number of sequences.
    count: usize,
    steps: usize,
    hidden: usize,
    reverse: bool,
}

impl Block {
    fn of(task: usize, sizes: RecurrentSizes, reverse: bool) -> Block {
        let first = task * SEQUENCES;
        Block {
            first,
            count: SEQUENCES.min(sizes.batch - first),
            steps: sizes.steps,
            hidden: sizes.hidden,
            reverse,
        }
    }

    /// The steps in the order in which the network takes them, each with the one before it.
    fn steps(&self) -> impl DoubleEndedIterator<Item = (usize, Option<usize>)> + use<> {
        let Block { steps, reverse, .. } = *self;
        (0..steps).map(move |i| {
            if reverse {
                (steps - 1 - i, i.checked_sub(1).map(|_| steps - i))
            } else {
                (i, i.checked_sub(1))
            }
        })
    }

    /// The rows of a step among values of all steps that have `width` numbers each.
    fn at(&self, all: *mut f32, step: usize, width: usize) -> Rows<f32> {
        Rows {
            ptr: all.wrapping_add((self.first * self.steps + step) * width),
            row: self.steps * width,
            col: 1,
        }
    }

    /// The rows of a value that has `width` numbers for each sequence.
    fn state(&self, all: *mut f32, width: usize) -> Rows<f32> {
        Rows {
            ptr: all.wrapping_add(self.first * width),
            row: width,
            col: 1,
        }
    }

    /// The states that a step begins with: those of the step before, or the first ones.
    fn begin(&self, all: *mut f32, first: *mut f32, before: Option<usize>) -> Rows<f32> {
        match before {
            Some(before) => self.at(all, before, self.hidden),
            None => self.state(first, self.hidden),
        }
    }

    /// `to = state weightᵀ` for a weight of `width` rows.
    ///
    /// # Safety
    /// The operands have these elements, and `to` overlaps none of them.
    unsafe fn product(&self, state: Rows<f32>, weight: *mut f32, width: usize, to: *mut f32) {
        let weight = Rows {
            ptr: weight,
            row: 1,
            col: self.hidden,
        };
        // SAFETY: passed on.
        unsafe { few_rows(self.count, self.hidden, 0..width, state, weight, Rows::dense(to, width)) }
    }

    /// `to = sums weight` for a weight of `width` rows.
    ///
    /// # Safety
    /// As for [`Block::product`].
    unsafe fn product_back(&self, sums: Rows<f32>, weight: *mut f32, width: usize, to: *mut f32) {
        let (weight, to) = (Rows::dense(weight, self.hidden), Rows::dense(to, self.hidden));
        // SAFETY: passed on.
        unsafe { few_rows(self.count, width, 0..self.hidden, sums, weight, to) }
    }
}
