//! The start of a search: in a new folder, or after the checkpoint of one that was killed or interrupted.

use super::folder::REPORT;
use super::hardware::{MAPPING, candidates};
use super::settings::{Job, job, reached};
use crate::job::{self, CHECKPOINT_MINUTES, RecipeImages, Request, SEARCH, reading_the_same};
use crate::schema::SearchKeys;
use lessen_base::Result;
use lessen_hardware::bitfusion::GroupMapping;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::SettingValue;
use serde::{Deserialize, Serialize};

/// Keys that may change when a search is resumed: they change no result.
const FREE: [&str; 5] = [
    "run.budget",
    "search.checkpoint_minutes",
    "data.path",
    "data.dev",
    "data.test",
];

/// What the manifest of a search tells beside that of any job: nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Searched {}

/// `manifest.json` of a search.
pub(super) type Manifest = job::Manifest<Searched>;

/// The start of a search.
pub(super) type Start = job::Start<Searched>;

impl Start {
    /// Opens the folder of a search that is resumed, or checks that a new one may be created.
    ///
    /// # Errors
    /// A folder that cannot be used, and settings that do not go together.
    pub(super) fn of_search(request: &Request) -> Result<Start> {
        let mut start = Start::of(request, SEARCH)?;
        start.open(request, |name| FREE.contains(&name))?;
        let checkpoint = start.checkpoint.as_ref();
        let reached = checkpoint.map(|own| reached(&start.config, own.done)).transpose()?;
        start.announce(reached.as_deref());
        Ok(start)
    }

    /// The search of these images.
    ///
    /// # Errors
    /// Settings that do not go together, hardware that is none, a limit that no network meets.
    pub(super) fn job(&self, images: &RecipeImages) -> Result<Job> {
        let mut candidates = candidates(&self.config)?;
        if self.folder.is_some() && !self.config.is_given(MAPPING) {
            // A folder without a mapping was begun where the default was one pass for each group.
            candidates.retain(|own| own.mapping.is_none_or(|mapping| mapping == GroupMapping::PerGroup));
        }
        job(&self.config, images, candidates)
    }

    /// The settings for the folder, which read the same images again and tell the same costs.
    ///
    /// # Errors
    /// None, as long as a share is one that the key takes.
    pub(super) fn settings_of(&self, job: &Job, images: &RecipeImages) -> Result<Settings> {
        let mut settings = reading_the_same(&self.config, images)?;
        if let (Some(mapping), false) = (job.mapping, self.config.is_given(MAPPING)) {
            let value = SettingValue::Text(mapping.name().to_string());
            settings.set_named(MAPPING, value, "the search".to_string())?;
        }
        Ok(settings)
    }

    /// Whether nothing is left to do.
    pub(super) fn has_ended(&self) -> bool {
        let folder = self.folder.as_ref();
        folder.is_some_and(|folder| folder.root().join(REPORT).is_file())
    }

    /// Minutes between checkpoints.
    ///
    /// # Errors
    /// A value that a key does not take.
    pub(super) fn checkpoint_minutes(&self) -> Result<f64> {
        let keys = self.config.settings.section::<SearchKeys>()?;
        Ok(keys.checkpoint_minutes.unwrap_or(CHECKPOINT_MINUTES))
    }
}
