//! Tasks of GLUE.

use super::corpus::{Corpus, folder};
use super::labelled::{LabelledTexts, assumed_goal};
use super::{Format, HeldOut, KnownModel, packed_texts};
use crate::goal::{self, SharedGoal};
use crate::models::ModelRole;
use crate::recipe::config::Config;
use crate::recipe::keys::{DataFormat, DataKeys};
use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_data::GlueTask;
use lessen_data::memory::DataInMemory;
use lessen_nn::{BatchShape, Model};
use std::path::Path;
use std::sync::Arc;

/// A task of GLUE.
pub(super) struct GlueFormat;

impl Format for GlueFormat {
    fn own_keys(&self) -> &'static [&'static str] {
        &["data.problem"]
    }

    fn learned_by(&self) -> ModelRole {
        ModelRole::ClassifiesTexts
    }

    fn has_lengths(&self, _data: &DataKeys) -> bool {
        true
    }

    fn held_out(&self) -> HeldOut {
        HeldOut::Nothing
    }

    fn read(&self, config: &Config, _known: &KnownModel, _given: Option<&DataInMemory>) -> Result<Arc<dyn Corpus>> {
        let path = folder(config)?;
        let task = task_of(config, path)?;
        let problem = task.target().problem();
        if config.data.problem.is_some_and(|given| given != problem) {
            return Err(Error::user(format!(
                "{} is not that of the task {}, {}; leave it out",
                config.place("data.problem"),
                task.name(),
                problem.word()
            )));
        }
        Ok(Arc::new(LabelledTexts(task.read(path)?)))
    }

    /// Also where the task is unknown.
    fn has_pairs(&self, config: &Config) -> bool {
        let path = config.data.path.as_deref().unwrap_or(Path::new(""));
        task_of(config, path).map_or(true, GlueTask::has_pairs)
    }

    fn assumed_goal(&self, config: &Config) -> SharedGoal {
        assumed_goal(config)
    }

    fn assumed_shapes(&self, config: &Config, _model: &Model) -> [BatchShape; 2] {
        [packed_texts(config, 1); 2]
    }

    fn settings_of_folder(&self, name: &str) -> Vec<(&'static str, &'static str)> {
        let task = GlueTask::from_name(name).ok();
        let settings = task.map(|task| {
            let problem = task.target().problem();
            [
                ("data.format", DataFormat::Glue.word()),
                ("data.problem", problem.word()),
            ]
        });
        settings.into_iter().flatten().collect()
    }
}

/// The task of GLUE that a recipe names, or else the folder of its data.
///
/// # Errors
/// A recipe and a folder without the name of a task.
pub fn task_of(config: &Config, path: &Path) -> Result<GlueTask> {
    if let Some(task) = &config.data.task {
        return GlueTask::from_name(task)
            .map_err(|error| Error::user(format!("{}: {error}", config.settings.origin("data.task"))));
    }
    let name = path
        .canonicalize()
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    name.and_then(|name| GlueTask::from_name(&name).ok()).ok_or_else(|| {
        let names = GlueTask::ALL.map(GlueTask::name).join(", ");
        Error::user(format!(
            "which task of GLUE? Name it by --set data.task=NAME, one of {names}"
        ))
    })
}

/// The goal of a task of GLUE, with labels predicted from the probability `threshold` on.
pub fn goal_of_task(task: GlueTask, threshold: f64) -> SharedGoal {
    goal::of_labels(task.target(), task.metrics(), threshold)
}
