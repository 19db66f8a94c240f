//! What a search keeps from one epoch to the next.

use super::Searcher;
use crate::kept::{of_params, read, restore};
use crate::steps::{LOGITS, MOMENTS};
use lessen_base::{Error, Result};
use lessen_nn::Weights;

impl Searcher<'_> {
    pub(super) fn elements(&self, name: &str) -> Result<Vec<f32>> {
        let state = self.session.state(name)?;
        let elements = state.host().as_f32().map(<[f32]>::to_vec);
        elements.ok_or_else(|| Error::internal(format!("the state `{name}` is not f32")))
    }

    /// The states that are kept from one epoch to the next, with their shapes.
    fn kept(&self) -> Vec<(String, Vec<usize>)> {
        let logits = [LOGITS, MOMENTS[0], MOMENTS[1]].map(|name| (name.to_string(), vec![self.variables.len()]));
        of_params(&self.params).chain(logits).collect()
    }

    /// All that the next epoch depends on beside its number, by name.
    ///
    /// # Errors
    /// A device that fails.
    pub fn state(&self) -> Result<Weights> {
        read(&self.session, self.kept())
    }

    /// Continues after `done` epochs from the [`Searcher::state`] after them.
    ///
    /// # Errors
    /// A state of another space or other images; nothing has changed then.
    pub fn resume(&mut self, done: usize, state: &Weights) -> Result<()> {
        let kept = self.kept();
        restore(&mut self.session, kept, state)?;
        self.done = done;
        Ok(())
    }
}
