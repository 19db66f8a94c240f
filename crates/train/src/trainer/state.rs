//! What training remembers, in parts that a caller puts where it likes: saving it, and going on with it.

use super::Trainer;
use crate::array::StateArray;
use lessen_base::{Error, Result};
use lessen_nn::checkpoint::{Entry, TensorFile, WeightDtype};
use serde_json::{Map, Value};
use std::path::Path;

impl Trainer {
    /// What training remembers beside the parameters: the optimizer's states, and those that the model function
    /// declared, each in its own dtype.
    ///
    /// # Errors
    /// A device that fails.
    pub fn state(&mut self) -> Result<Vec<StateArray>> {
        self.flush()?;
        self.states.iter().map(|name| self.session.state(name)).collect()
    }

    /// Writes the parameters as a Hugging Face directory with this configuration in this dtype, tensor by tensor.
    ///
    /// # Errors
    /// A folder that cannot be written to, and a number that the dtype does not reach.
    pub fn save(&mut self, dir: &Path, config_json: &Map<String, Value>, dtype: WeightDtype) -> Result<()> {
        self.flush()?;
        self.session.save(dir, config_json, dtype)
    }

    /// Writes what training remembers beside the parameters, see [`Trainer::state`], to a safetensors file, tensor by
    /// tensor; without `optimizer` the moments and averages are left out. Parameters that [`Trainer::save`] does not
    /// write as they are, rounded to `dtype` or as averages, are in this file, and so are those that are trained beside
    /// a model with adapters. Returns what is in it.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn save_state(&mut self, path: &Path, dtype: WeightDtype, optimizer: bool) -> Result<Vec<Entry>> {
        self.flush()?;
        let states = self.states.iter().filter(|name| optimizer || !is_of_optimizer(name));
        let names: Vec<String> = states.cloned().chain(self.unsaved_params(dtype)).collect();
        self.session.save_states(path, &names)
    }

    /// Goes on after `done` steps with what [`Trainer::state`] returned then.
    ///
    /// # Errors
    /// A state that this trainer does not have, lacks, or has in another dtype or shape.
    pub fn resume(&mut self, done: u64, state: &[StateArray]) -> Result<()> {
        let fits = |array: &StateArray| self.states.contains(&array.name) && self.session.has_state(array);
        if state.len() != self.states.len() || !state.iter().all(fits) {
            return Err(other_optimizer());
        }
        self.flush()?;
        state.iter().try_for_each(|array| self.session.set_state(array))?;
        self.done = done;
        Ok(())
    }

    /// Goes on after `done` steps with what [`Trainer::save_state`] wrote then, with `optimizer` as there: without,
    /// moments and averages begin anew.
    ///
    /// # Errors
    /// A state that this trainer does not have, lacks, or has in another dtype or shape; a file that cannot be read.
    pub fn resume_from(&mut self, done: u64, path: &Path, optimizer: bool) -> Result<()> {
        let mut file = TensorFile::open(path)?;
        self.flush()?;
        let found = self.session.load_states(&mut file, &self.states_and_params())?;
        let mut needed: Vec<&String> = self.states.iter().collect();
        needed.retain(|name| optimizer || !is_of_optimizer(name));
        let adapted = match self.session.reading().lora() {
            Some(_) => self.unsaved_params(WeightDtype::F32),
            None => Vec::new(),
        };
        let has_all = needed.into_iter().chain(&adapted).all(|name| found.contains(name));
        if !has_all || found.len() != file.names().len() {
            return Err(other_optimizer());
        }
        self.session.recentre()?;
        self.done = done;
        Ok(())
    }

    /// Goes on after `done` steps of another model with what [`Trainer::save_state`] wrote of it then. States that this
    /// trainer does not have, or in another dtype or shape, are left out; those that it has beside them begin as zeros.
    /// Where norms subtract no mean, the parameters are recentred for it.
    /// Returns the names of what was read.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn carry_on_from(&mut self, done: u64, path: &Path) -> Result<Vec<String>> {
        self.flush()?;
        let all = self.states_and_params();
        let found = self.session.load_states(&mut TensorFile::open(path)?, &all)?;
        self.session.recentre()?;
        self.done = done;
        Ok(found)
    }

    /// Goes on after `done` steps of another model, in whose session this trainer was made: the states that both have
    /// stay as they are.
    pub fn carry_on_after(&mut self, done: u64) {
        self.done = done;
    }

    /// The parameters that [`Trainer::save`] does not write as they are.
    fn unsaved_params(&self, dtype: WeightDtype) -> Vec<String> {
        let reading = self.session.reading();
        let is_unsaved = |name: &&String| match reading.lora() {
            Some(lora) => lora.trains(name),
            None => dtype != WeightDtype::F32 || reading.averages(name),
        };
        let names = self.session.params().iter().map(|param| &param.name);
        names.filter(is_unsaved).cloned().collect()
    }

    fn states_and_params(&self) -> Vec<String> {
        let params = self.session.params().iter().map(|param| param.name.clone());
        self.states.iter().cloned().chain(params).collect()
    }
}

/// Whether a state is of the optimizer, or an average.
fn is_of_optimizer(state: &str) -> bool {
    state.starts_with("optimizer.") || state.starts_with("ema.")
}

/// The error of a checkpoint whose states are not those of the trainer.
pub(super) fn other_optimizer() -> Error {
    Error::user("the checkpoint is of another optimizer; resume with the settings that it had")
}
