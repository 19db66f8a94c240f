//! The start of a job: in a new folder, or after the checkpoint of one that was killed or interrupted.

use super::{Checkpoint, JobFolder, JobKind, Manifest, RecipeImages, Request, check_images, noted};
use crate::schema::check_flags;
use lessen_base::Result;
use lessen_task::folder::{NewFolderGuard, check_free};
use lessen_task::recipe::config::Config;
use lessen_task::wording::report;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// The start of a job, whose manifests have `T` beside what all have.
pub(crate) struct Start<T> {
    kind: JobKind,
    pub config: Config,
    out: PathBuf,
    /// The folder of a job that is resumed.
    pub folder: Option<JobFolder>,
    /// What the folder says of it.
    pub before: Option<Manifest<T>>,
    /// The checkpoint to go on from.
    pub checkpoint: Option<Checkpoint>,
}

impl<T: Serialize + DeserializeOwned> Start<T> {
    /// Reads the settings of a job of this kind.
    ///
    /// # Errors
    /// Settings that do not go together, and a job that is resumed without its data.
    pub(crate) fn of(request: &Request, kind: JobKind) -> Result<Start<T>> {
        check_flags(&request.settings, kind, kind.section)?;
        let config = Config::new(request.settings.clone().with_absolute_paths())?;
        request.check_data(kind.noun, &config)?;
        Ok(Start {
            kind,
            config,
            out: request.out.clone(),
            folder: None,
            before: None,
            checkpoint: None,
        })
    }

    /// Opens the folder of a job that is resumed, or checks that a new one may be created. Settings other than those
    /// that are free must be as they were.
    ///
    /// # Errors
    /// A folder that cannot be used, and another setting.
    pub(crate) fn open(&mut self, request: &Request, is_free: impl Fn(&str) -> bool) -> Result<()> {
        let Some(before) = &request.before else {
            return check_free(&self.out);
        };
        let folder = JobFolder::reopen(self.kind, &self.out)?;
        let changes = before.changes(&self.config.settings);
        if let Some((key, old, new)) = changes.into_iter().find(|(name, ..)| !is_free(name)) {
            return Err(self.kind.changed(&self.out, (&key, &old, &new)));
        }
        // A process that was killed at once has left no manifest.
        let path = folder.manifest_file();
        self.before = path.is_file().then(|| Manifest::read(self.kind, &path)).transpose()?;
        self.checkpoint = Checkpoint::read(&folder.checkpoint())?;
        self.folder = Some(folder);
        Ok(())
    }

    /// Says after what a folder that is resumed goes on.
    pub(crate) fn announce(&self, reached: Option<&str>) {
        if self.folder.is_some() {
            report(&self.kind.resuming(&self.out, reached));
        }
    }

    /// Iterations or epochs that are done, and tests of bits after epochs.
    pub(crate) fn done(&self) -> usize {
        self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.done)
    }

    /// The manifest of the job on these images.
    ///
    /// # Errors
    /// Other images than the folder's; a file of an image that cannot be read.
    pub(crate) fn manifest(&self, images: &RecipeImages, own: T) -> Result<Manifest<T>> {
        let (data, inputs) = (noted(&self.config, images)?, images.inputs(&self.config)?);
        if let Some(before) = &self.before {
            check_images(self.kind, &self.out, &before.data, &data)?;
            before.inputs.check(&inputs, self.kind.noun, &self.out)?;
        }
        Ok(Manifest {
            lessen: env!("CARGO_PKG_VERSION").to_string(),
            recipe: self.config.recipe().to_string(),
            done: self.done(),
            own,
            data,
            inputs,
            shape: images.preprocessing().shape(),
            classes: images.names.clone(),
        })
    }

    /// The folder. A new one is removed when its guard is dropped.
    ///
    /// # Errors
    /// A folder that cannot be created or written to.
    pub(crate) fn folder(&self) -> Result<(JobFolder, Option<NewFolderGuard>)> {
        match &self.folder {
            Some(folder) => Ok((folder.clone(), None)),
            None => JobFolder::create(self.kind, &self.out).map(|(folder, guard)| (folder, Some(guard))),
        }
    }

    /// The path of the folder.
    pub(crate) fn out(&self) -> &Path {
        &self.out
    }
}
