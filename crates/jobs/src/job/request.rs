//! A job that is asked for.

use super::{JobFolder, JobKind};
use lessen_base::{Error, Result};
use lessen_task::recipe::settings::Settings;
use std::path::PathBuf;

/// A job that is asked for: its settings and its folder.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) settings: Settings,
    pub(crate) out: PathBuf,
    /// The settings of a job that is resumed, as they were.
    pub(crate) before: Option<Settings>,
}

impl Request {
    /// A new job with these settings in this folder.
    pub fn new(settings: Settings, out: PathBuf) -> Request {
        Request {
            settings,
            out,
            before: None,
        }
    }

    /// Resumes the job in a folder with its own settings, over which `change` puts flags. It must have the recipe
    /// called `recipe`, if it is given.
    ///
    /// # Errors
    /// A folder without such a job, one of another recipe, the errors of `change`.
    pub fn resume(
        kind: JobKind,
        out: PathBuf,
        recipe: Option<&str>,
        change: impl FnOnce(&mut Settings) -> Result<()>,
    ) -> Result<Request> {
        let before = JobFolder::open(kind, &out)?.settings()?;
        let own = before.text("run.recipe").unwrap_or_default();
        if let Some(recipe) = recipe.filter(|recipe| *recipe != own) {
            return Err(Error::user(format!(
                "the {} {} is of the recipe {own}, not {recipe}; leave the recipe out, or name another folder with --out",
                kind.noun,
                out.display()
            )));
        }
        let mut settings = before.clone();
        change(&mut settings)?;
        Ok(Request {
            settings,
            out,
            before: Some(before),
        })
    }
}
