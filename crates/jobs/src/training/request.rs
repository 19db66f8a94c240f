//! A run that is asked for.

use crate::schema::SCHEMA;
use lessen_base::{Error, Result};
use lessen_task::folder::Folder;
use lessen_task::recipe::settings::Settings;
use lessen_task::task::shared_data::SharedData;
use std::path::PathBuf;

/// A run that is asked for: its settings and its folder.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) settings: Settings,
    pub(super) out: PathBuf,
    /// The settings of a run that is resumed, as they were.
    pub(super) before: Option<Settings>,
    /// Data that it shares with other runs.
    pub(super) shared: SharedData,
}

impl Request {
    /// A new run with these settings in this folder.
    pub fn new(settings: Settings, out: PathBuf) -> Request {
        Request {
            settings,
            out,
            before: None,
            shared: SharedData::default(),
        }
    }

    /// Resumes the run in a folder with its own settings, over which `change` puts flags. The run must have the recipe
    /// called `recipe`, if it is given.
    ///
    /// # Errors
    /// A folder without a run, a run of another recipe, the errors of `change`.
    pub fn resume(
        out: PathBuf,
        recipe: Option<&str>,
        change: impl FnOnce(&mut Settings) -> Result<()>,
    ) -> Result<Request> {
        let before = Folder::open(&out)?.settings()?.under(&SCHEMA)?;
        let own = before.text("run.recipe").unwrap_or_default();
        if let Some(recipe) = recipe.filter(|recipe| *recipe != own) {
            return Err(Error::user(format!(
                "the run {} is of the recipe {own}, not {recipe}; leave the recipe out, or name another folder with --out",
                out.display()
            )));
        }
        let mut settings = before.clone();
        change(&mut settings)?;
        Ok(Request {
            settings,
            out,
            before: Some(before),
            shared: SharedData::default(),
        })
    }

    /// The request on data that it shares with other runs.
    pub(crate) fn on(self, shared: &SharedData) -> Request {
        Request {
            shared: shared.clone(),
            ..self
        }
    }
}
