//! The whole state of a trainer in a folder: what a later process needs to go on as if nothing had happened.
//!
//! ```text
//! model.safetensors      the parameters
//! training.safetensors   the states of optimizer and model function
//! training.json          the number of steps done
//! ```

use super::Trainer;
use super::state::other_optimizer;
use crate::session::PARAMETERS;
use lessen_base::atomic::{write_file, write_folder};
use lessen_base::{Error, Result};
use lessen_nn::checkpoint::TensorFile;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The file with the states.
const STATES: &str = "training.safetensors";
/// The file with the number of steps.
const STEPS: &str = "training.json";

impl Trainer {
    /// Saves everything in a folder, tensor by tensor; one that holds an older checkpoint is replaced as a whole, so
    /// that it is never half-written. [`Trainer::resume_checkpoint`] reads it, and
    /// [`Session::open`](crate::Session::open) the parameters alone.
    ///
    /// # Errors
    /// A folder that cannot be written to, or holds something else.
    pub fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.flush()?;
        let is_empty = || fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
        if dir.exists() && !dir.join(STEPS).is_file() && !is_empty() {
            return Err(Error::user(format!(
                "{} holds something else than a checkpoint; name another folder",
                dir.display()
            )));
        }
        if let Some(parent) = dir.parent() {
            let made = fs::create_dir_all(parent);
            made.map_err(|error| lessen_base::atomic::unwritable(parent, &error))?;
        }
        write_folder(dir, |aside| {
            self.session.save_states(&aside.join(PARAMETERS), &self.names())?;
            self.session.save_states(&aside.join(STATES), &self.states)?;
            let steps = json!({ "step": self.done });
            write_file(&aside.join(STEPS), format!("{steps}\n").as_bytes())
        })
    }

    /// Goes on with what [`Trainer::save_checkpoint`] saved of the same model function and options: parameters, states
    /// and the number of steps, which is returned. The next steps have the same bits as if training had gone on.
    ///
    /// # Errors
    /// A folder without a checkpoint, files that cannot be read, and a checkpoint of another model or optimizer, which
    /// changes nothing.
    pub fn resume_checkpoint(&mut self, dir: &Path) -> Result<u64> {
        let path = dir.join(STEPS);
        let unreadable = |reason: &dyn std::fmt::Display| {
            let shown = path.display();
            Error::user(format!(
                "{shown} cannot be read ({reason}); name a folder that save_checkpoint wrote"
            ))
        };
        let text = fs::read_to_string(&path).map_err(|error| unreadable(&error))?;
        let steps: Value = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
        let done = steps["step"]
            .as_u64()
            .ok_or_else(|| unreadable(&"it has no number of steps"))?;
        let mut parameters = TensorFile::open(&dir.join(PARAMETERS))?;
        let mut states = TensorFile::open(&dir.join(STATES))?;
        let names = self.names();
        self.session
            .check_states(&parameters, &names)
            .map_err(|error| error.at(dir.display()))?;
        let is_whole = self.session.check_states(&states, &self.states).is_ok();
        if !is_whole || states.names().len() != self.states.len() {
            return Err(other_optimizer().at(dir.display()));
        }
        self.pending = None;
        self.session.load_states(&mut parameters, &names)?;
        self.session.load_states(&mut states, &self.states)?;
        self.session.recentre()?;
        self.done = done;
        Ok(done)
    }

    /// The names of the parameters.
    fn names(&self) -> Vec<String> {
        self.session.params().iter().map(|param| param.name.clone()).collect()
    }
}
