//! The whole state of a trainer in a folder, from which a later process continues to the bit.
//!
//! ```text
//! model.safetensors      the parameters
//! training.safetensors   the states of optimizer and model function
//! training.json          the numbers of steps done, and learning rates that were set
//! ```

use super::Trainer;
use super::state::other_optimizer;
use super::steps::Steps;
use crate::filed::{self, FiledState};
use crate::session::PARAMETERS;
use lessen_base::atomic::{write_file, write_folder};
use lessen_base::{Error, Result};
use lessen_nn::checkpoint::TensorFile;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The file with the states.
const STATES: &str = "training.safetensors";
/// The file with the number of steps.
const STEPS: &str = "training.json";

/// How far steps of one loss are.
struct Place {
    done: u64,
    lr: Option<f64>,
}

impl Place {
    fn of(value: &Value) -> Option<Place> {
        let done = value["step"].as_u64()?;
        let lr = value["lr"].as_f64();
        Some(Place { done, lr })
    }
}

/// How far all steps are.
struct Progress {
    first: Place,
    named: BTreeMap<String, Place>,
}

impl Progress {
    /// The numbers of a file; none if one is missing.
    fn of(value: &Value) -> Option<Progress> {
        let named = value["named"].as_object().into_iter().flatten();
        let named = named.map(|(name, place)| Some((name.clone(), Place::of(place)?)));
        Some(Progress {
            first: Place::of(value)?,
            named: named.collect::<Option<_>>()?,
        })
    }
}

impl Trainer {
    /// Saves everything in a folder, tensor by tensor; one that holds an older checkpoint is replaced as a whole, so
    /// that it is never half-written. [`Trainer::resume_checkpoint`] reads it, and
    /// [`Session::open`](crate::Session::open) the parameters alone.
    ///
    /// # Errors
    /// A folder that cannot be written to, or holds something else, and a step before that was not finite; see
    /// [`NonFinite::Stop`](crate::NonFinite::Stop).
    pub fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.check_whole()?;
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
            self.session
                .save_states(&aside.join(PARAMETERS), &self.filed_params())?;
            self.saved(&aside.join(STATES), &self.filed_states())?;
            let steps = self.progress();
            write_file(&aside.join(STEPS), format!("{steps}\n").as_bytes())
        })
    }

    /// Continues from a folder of [`Trainer::save_checkpoint`] of the same model function and options. Returns the
    /// number of steps done; the next steps have the same bits as if training had gone on.
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
        let progress = Progress::of(&steps).ok_or_else(|| unreadable(&"it has no number of steps"))?;
        self.check_names(&progress).map_err(|error| error.at(path.display()))?;
        let mut parameters = TensorFile::open(&dir.join(PARAMETERS))?;
        let mut states = TensorFile::open(&dir.join(STATES))?;
        let params = self.filed_params();
        filed::check(&parameters, &params).map_err(|error| error.at(dir.display()))?;
        let own = filed::with_names_of(&states, self.filed_states());
        let is_whole = filed::check(&states, &own).is_ok();
        if !is_whole || states.names().len() != own.len() {
            return Err(other_optimizer().at(dir.display()));
        }
        self.first.pending = None;
        self.session.load_states(&mut parameters, &params)?;
        self.session.load_states(&mut states, &own)?;
        self.session.recentre()?;
        let done = progress.first.done;
        for (named, own) in self.named.values_mut().zip(progress.named.values()) {
            named.steps.go_on(own.done);
            named.steps.lr = own.lr;
        }
        self.first.go_on(done);
        self.first.lr = progress.first.lr;
        Ok(done)
    }

    /// The numbers of steps done, and learning rates that were set.
    fn progress(&self) -> Value {
        let of = |steps: &Steps| {
            let mut fields = Map::new();
            fields.insert("step".to_string(), json!(steps.done));
            fields.extend(steps.lr.map(|lr| ("lr".to_string(), json!(lr))));
            fields
        };
        let mut all = of(&self.first);
        if !self.named.is_empty() {
            let named = self.named.iter();
            let named = named.map(|(name, named)| (name.clone(), of(&named.steps).into()));
            all.insert("named".to_string(), named.collect::<Map<String, Value>>().into());
        }
        all.into()
    }

    /// Refuses a checkpoint with other named steps.
    fn check_names(&self, progress: &Progress) -> Result<()> {
        let (own, of_file) = (&self.named, &progress.named);
        if let Some(name) = of_file.keys().find(|name| !own.contains_key(*name)) {
            return Err(Error::user(format!(
                "the checkpoint has steps `{name}`, which this trainer lacks; call Trainer::add_named_step before"
            )));
        }
        match own.keys().find(|name| !of_file.contains_key(*name)) {
            None => Ok(()),
            Some(name) => Err(Error::user(format!(
                "the checkpoint has no steps `{name}`; resume it without that step, and add it afterwards"
            ))),
        }
    }

    /// The parameters, as a file of parameters has them.
    fn filed_params(&self) -> Vec<FiledState> {
        let params = self.session.params().iter();
        params
            .map(|param| FiledState::of_param(&param.name, &param.shape))
            .collect()
    }

    /// The states beside the parameters, as a file of states has them.
    fn filed_states(&self) -> Vec<FiledState> {
        self.states.iter().map(|name| self.session.filed(name)).collect()
    }
}
