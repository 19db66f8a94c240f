//! States of training: saving them, and continuing from them.

use super::Trainer;
use crate::array::StateArray;
use crate::filed::{self, FiledState};
use crate::session::pieces::in_order;
use lessen_base::{Error, Result};
use lessen_nn::checkpoint::{Entry, TensorFile, WeightDtype};
use lessen_nn::names::is_of_optimizer;
use serde_json::{Map, Value};
use std::path::Path;

impl Trainer {
    /// States beside the parameters: the optimizer's states, and the states that the model function declared, each in
    /// its own dtype.
    ///
    /// # Errors
    /// A device that fails.
    pub fn state(&mut self) -> Result<Vec<StateArray>> {
        self.flush()?;
        let begins = self.session.begin_giving(self.states.iter().map(String::as_str));
        let states = self.session.state_arrays(&self.states);
        if begins {
            self.session.end_giving()?;
        }
        states
    }

    /// Begins to give the other processes what they lack of the files that [`Trainer::save`] and then
    /// [`Trainer::save_state`] write: every process has the optimizer's states of a piece of the parameters alone. All
    /// processes begin and end together; one of them may write a file meanwhile.
    ///
    /// # Errors
    /// A process that does not answer.
    pub fn begin_giving(&mut self, dtype: WeightDtype, optimizer: bool) -> Result<()> {
        self.flush()?;
        let filed = self.filed_with(dtype, optimizer);
        let params = self.session.saved_params();
        let params = params.iter().map(|param| param.name.as_str());
        let states = in_order(&filed).into_iter().map(|own| own.state.as_str());
        self.session.begin_giving(params.chain(states));
        Ok(())
    }

    /// Gives the other processes what is left of [`Trainer::begin_giving`].
    ///
    /// # Errors
    /// A process that does not answer.
    pub fn end_giving(&self) -> Result<()> {
        self.session.end_giving()
    }

    /// Writes the parameters as a Hugging Face directory with this configuration in this dtype, tensor by tensor.
    ///
    /// # Errors
    /// A folder that cannot be written to, a number that the dtype does not reach, and a step before that was not
    /// finite; see [`NonFinite::Stop`](crate::NonFinite::Stop).
    pub fn save(&mut self, dir: &Path, config_json: &Map<String, Value>, dtype: WeightDtype) -> Result<()> {
        self.check_whole()?;
        self.flush()?;
        self.session.save(dir, config_json, dtype)
    }

    /// Writes the states of [`Trainer::state`] to a safetensors file, tensor by tensor; without `optimizer`, moments
    /// and averages are left out. The file also has parameters that [`Trainer::save`] does not write exactly, because
    /// it rounds them to `dtype` or writes averages, and parameters that are trained beside a model with adapters.
    /// Returns the tensors of the file.
    ///
    /// # Errors
    /// A file that cannot be written, and a step before that was not finite; see
    /// [`NonFinite::Stop`](crate::NonFinite::Stop).
    pub fn save_state(&mut self, path: &Path, dtype: WeightDtype, optimizer: bool) -> Result<Vec<Entry>> {
        self.check_whole()?;
        self.flush()?;
        self.saved(path, &self.filed_with(dtype, optimizer))
    }

    /// Writes states to a file, while processes give each other their pieces.
    pub(super) fn saved(&self, path: &Path, filed: &[FiledState]) -> Result<Vec<Entry>> {
        let names = in_order(filed).into_iter().map(|own| own.state.as_str());
        let begins = self.session.begin_giving(names);
        let saved = self.session.save_states(path, filed);
        if begins {
            self.session.end_giving()?;
        }
        saved
    }

    /// The states that a file has; without `optimizer`, moments and averages are left out.
    fn filed_with(&self, dtype: WeightDtype, optimizer: bool) -> Vec<FiledState> {
        let states = self.states.iter().filter(|name| optimizer || !is_of_optimizer(name));
        let names = states.cloned().chain(self.unsaved_params(dtype));
        names.map(|name| self.session.filed(&name)).collect()
    }

    /// Continues after `done` steps with the result of [`Trainer::state`] at that time.
    ///
    /// # Errors
    /// Named steps, whose numbers [`Trainer::resume_checkpoint`] knows; a state that this trainer does not have, lacks,
    /// or has in another dtype, shape or number of elements; nothing has changed then.
    pub fn resume(&mut self, done: u64, state: &[StateArray]) -> Result<()> {
        self.check_unnamed()?;
        self.flush()?;
        if !self.session.set_states(&self.states, state)? {
            return Err(other_optimizer());
        }
        self.first.go_on(done);
        Ok(())
    }

    /// Continues after `done` steps with the file that [`Trainer::save_state`] wrote at that time, with the same
    /// `optimizer`: without it, moments and averages begin as zeros.
    ///
    /// # Errors
    /// As [`Trainer::resume`]; a file that cannot be read.
    /// Nothing has changed then.
    pub fn resume_from(&mut self, done: u64, path: &Path, optimizer: bool) -> Result<()> {
        self.check_unnamed()?;
        let mut file = TensorFile::open(path)?;
        self.flush()?;
        let found = filed::found(&file, &filed::with_names_of(&file, self.filed_all()));
        let has = |name: &String| found.iter().any(|state| state.state == *name);
        let mut needed = self.states.iter().filter(|name| optimizer || !is_of_optimizer(name));
        let adapted = match self.session.view().lora() {
            Some(_) => self.unsaved_params(WeightDtype::F32),
            None => Vec::new(),
        };
        if !needed.all(has) || !adapted.iter().all(has) || found.len() != file.names().len() {
            return Err(other_optimizer());
        }
        self.session.load_states(&mut file, &found)?;
        self.session.recentre()?;
        self.first.go_on(done);
        Ok(())
    }

    /// Continues after `done` steps of another model with the file that [`Trainer::save_state`] wrote of it. States of
    /// the file that this trainer does not have in the same dtype and shape are left out; states that the file lacks
    /// begin as zeros. Where norms subtract no mean, the parameters are recentred for it. Returns the names, on the
    /// device, of the states that were read.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn carry_on_from(&mut self, done: u64, path: &Path) -> Result<Vec<String>> {
        let mut file = TensorFile::open(path)?;
        self.flush()?;
        let found = filed::found(&file, &filed::with_names_of(&file, self.filed_all()));
        self.session.load_states(&mut file, &found)?;
        self.session.recentre()?;
        self.first.go_on(done);
        Ok(found.into_iter().map(|state| state.state).collect())
    }

    /// Continues after `done` steps of another model, in whose session this trainer was made: states that both have
    /// keep their values.
    pub fn carry_on_after(&mut self, done: u64) {
        self.first.go_on(done);
    }

    /// Refuses to go on with states alone where named steps have numbers, too.
    fn check_unnamed(&self) -> Result<()> {
        match self.named.keys().next() {
            None => Ok(()),
            Some(name) => Err(Error::user(format!(
                "the number of steps `{name}` is not among the states; use save_checkpoint and resume_checkpoint"
            ))),
        }
    }

    /// Parameters that [`Trainer::save`] does not write exactly.
    fn unsaved_params(&self, dtype: WeightDtype) -> Vec<String> {
        let view = self.session.view();
        let is_unsaved = |name: &&String| match view.lora() {
            Some(lora) => lora.trains(name),
            None => dtype != WeightDtype::F32 || view.averages(name),
        };
        let names = self.session.params().iter().map(|param| &param.name);
        names.filter(is_unsaved).cloned().collect()
    }

    /// All states and parameters, as a file of states has them.
    fn filed_all(&self) -> Vec<FiledState> {
        let params = self.session.params().iter().map(|param| &param.name);
        let names = self.states.iter().chain(params);
        names.map(|name| self.session.filed(name)).collect()
    }
}

/// The error for a checkpoint whose states are not the trainer's.
pub(super) fn other_optimizer() -> Error {
    Error::user("the checkpoint is of another optimizer; resume with the settings that it had")
}
