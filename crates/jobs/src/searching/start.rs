//! The start of a search: in a new folder, or after the checkpoint of one that was killed or interrupted.

use super::folder::REPORT;
use super::hardware::{MAPPING, candidates};
use super::keys::SearchKeys;
use super::manifest::Manifest;
use super::settings::{Job, job, reached};
use crate::job::RecipeImages;
use crate::job::{CHECKPOINT_MINUTES, Checkpoint, JobFolder, Request, SEARCH, check_origin, origin, reading_the_same};
use crate::schema::check_flags;
use lessen_base::Result;
use lessen_hardware::bitfusion::GroupMapping;
use lessen_task::folder::{NewFolderGuard, check_free};
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::SettingValue;
use lessen_task::wording::report;
use std::path::{Path, PathBuf};

/// Keys that may change when a search is resumed: they change no result.
const FREE: [&str; 5] = [
    "run.budget",
    "search.checkpoint_minutes",
    "data.path",
    "data.dev",
    "data.test",
];

/// The start of a search.
pub(super) struct Start {
    pub config: Config,
    out: PathBuf,
    /// The folder of a search that is resumed.
    folder: Option<JobFolder>,
    /// What the folder says of it.
    before: Option<Manifest>,
    /// The checkpoint to go on from.
    pub checkpoint: Option<Checkpoint>,
}

impl Start {
    /// Opens the folder of a search that is resumed, or checks that a new one may be created.
    ///
    /// # Errors
    /// A folder that cannot be used, and settings that do not go together.
    pub(super) fn of(request: &Request) -> Result<Start> {
        check_flags(&request.settings, SEARCH, "search")?;
        let mut start = Start {
            config: Config::new(request.settings.clone().with_absolute_paths())?,
            out: request.out.clone(),
            folder: None,
            before: None,
            checkpoint: None,
        };
        match &request.before {
            None => check_free(&request.out)?,
            Some(before) => start.reopen(before)?,
        }
        Ok(start)
    }

    /// Opens the folder of a search with the settings `before`.
    fn reopen(&mut self, before: &Settings) -> Result<()> {
        let folder = JobFolder::reopen(SEARCH, &self.out)?;
        let changes = before.changes(&self.config.settings);
        if let Some((key, old, new)) = changes.into_iter().find(|(name, ..)| !FREE.contains(&&**name)) {
            return Err(SEARCH.changed(&self.out, (&key, &old, &new)));
        }
        self.checkpoint = Checkpoint::read(&folder.checkpoint())?;
        self.before = Manifest::read(&folder.manifest_file())?;
        let own = self.checkpoint.as_ref();
        let reached = own.map(|own| reached(&self.config, own.done)).transpose()?;
        report(&SEARCH.resuming(&self.out, reached.as_deref()));
        self.folder = Some(folder);
        Ok(())
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

    /// The manifest of the search of these images.
    ///
    /// # Errors
    /// Other images than the folder's; a file of an image that cannot be read.
    pub(super) fn manifest(&self, images: &RecipeImages) -> Result<Manifest> {
        let (data, inputs) = (origin(&self.config, images)?, images.inputs(&self.config)?);
        if let Some(before) = &self.before {
            check_origin(SEARCH, &self.out, &before.data, &data)?;
            before.inputs.check(&inputs, SEARCH.noun, &self.out)?;
        }
        Ok(Manifest {
            lessen: env!("CARGO_PKG_VERSION").to_string(),
            recipe: self.config.recipe().to_string(),
            done: self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.done),
            data,
            inputs,
            shape: images.preprocessing().shape(),
            classes: images.names.clone(),
        })
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
        self.folder
            .as_ref()
            .is_some_and(|folder| folder.root().join(REPORT).is_file())
    }

    /// The folder. A new one is removed when its guard is dropped.
    ///
    /// # Errors
    /// A folder that cannot be created or written to.
    pub(super) fn folder(&self) -> Result<(JobFolder, Option<NewFolderGuard>)> {
        match &self.folder {
            Some(folder) => Ok((folder.clone(), None)),
            None => JobFolder::create(SEARCH, &self.out).map(|(folder, guard)| (folder, Some(guard))),
        }
    }

    /// The path of the folder.
    pub(super) fn out(&self) -> &Path {
        &self.out
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
