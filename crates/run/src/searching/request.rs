//! A search that is asked for.

use super::folder::SearchFolder;
use crate::recipe::settings::Settings;
use lessen_base::{Error, Result};
use std::path::PathBuf;

/// A search that is asked for: its settings and its folder.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) settings: Settings,
    pub(super) out: PathBuf,
    /// The settings of a search that is resumed, as they were.
    pub(super) before: Option<Settings>,
}

impl Request {
    /// A new search with these settings in this folder.
    pub fn new(settings: Settings, out: PathBuf) -> Request {
        Request {
            settings,
            out,
            before: None,
        }
    }

    /// Resumes the search in a folder with its own settings, over which `change` puts flags. It must have the recipe
    /// called `recipe`, if it is given.
    ///
    /// # Errors
    /// A folder without a search, one of another recipe, the errors of `change`.
    pub fn resume(
        out: PathBuf,
        recipe: Option<&str>,
        change: impl FnOnce(&mut Settings) -> Result<()>,
    ) -> Result<Request> {
        let before = SearchFolder::open(&out)?.settings()?;
        let own = before.text("run.recipe").unwrap_or_default();
        if let Some(recipe) = recipe.filter(|recipe| *recipe != own) {
            return Err(Error::user(format!(
                "the search {} is of the recipe {own}, not {recipe}; leave the recipe out, or name another folder with \
                 --out",
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
