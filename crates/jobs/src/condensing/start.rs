//! The start of a condensation: in a new folder, or after the checkpoint of one that was killed or interrupted, or that
//! is to have more iterations.

use super::folder::CondensedFolder;
use super::keys::CondenseKeys;
use super::manifest::Manifest;
use super::settings::{Iterations, condensation, iterations, resolved};
use crate::job::RecipeImages;
use crate::job::{CONDENSATION, Checkpoint, Request, check_origin, origin, reading_the_same};
use crate::schema::check_flags;
use lessen_base::{Error, Result};
use lessen_condense::{Objective, Settings as Condensation};
use lessen_task::folder::{NewFolderGuard, check_free};
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::SettingValue;
use lessen_task::wording::{counted, report};
use std::path::{Path, PathBuf};

/// Keys that may change when a condensation is resumed: they change no image, or the manifest tells whether they do.
const FREE: [&str; 7] = [
    "run.budget",
    "condense.iterations",
    "condense.minutes",
    "condense.checkpoint_minutes",
    "data.path",
    "data.dev",
    "data.test",
];

/// The start of a condensation.
pub(super) struct Start {
    pub config: Config,
    /// How the images are made.
    pub settings: Condensation,
    /// How long it goes on.
    pub iterations: Iterations,
    out: PathBuf,
    /// The folder of a condensation that is resumed.
    folder: Option<CondensedFolder>,
    /// What the folder says of it.
    before: Option<Manifest>,
    /// The checkpoint to go on from.
    pub checkpoint: Option<Checkpoint>,
}

impl Start {
    /// Opens the folder of a condensation that is resumed, or checks that a new one may be created.
    ///
    /// # Errors
    /// A folder that cannot be used, and settings that do not go together.
    pub(super) fn of(request: &Request) -> Result<Start> {
        check_flags(&request.settings, CONDENSATION, "condense")?;
        let config = Config::new(request.settings.clone().with_absolute_paths())?;
        let settings = condensation(&config)?;
        let mut start = Start {
            iterations: iterations(&config.settings.section::<CondenseKeys>()?, &settings),
            settings,
            config,
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

    /// Opens the folder of a condensation with the settings `before`.
    fn reopen(&mut self, before: &Settings) -> Result<()> {
        let folder = CondensedFolder::reopen(&self.out)?;
        let free = |name: &str| FREE.contains(&name) || name.starts_with("condense.");
        let changes = before.changes(&self.config.settings);
        if let Some((key, old, new)) = changes.into_iter().find(|(name, ..)| !free(name)) {
            return Err(self.other(&key, &old, &new));
        }
        let manifest = folder.has_manifest().then(|| folder.manifest()).transpose()?;
        self.checkpoint = Checkpoint::read(&folder.checkpoint())?;
        if let Some(manifest) = &manifest {
            for (name, value) in resolved(&self.config, &self.settings)? {
                let old = manifest.settings.get(name).map_or("nothing", String::as_str);
                if old != value {
                    return Err(self.other(&format!("condense.{name}"), old, &value));
                }
            }
            if let (Iterations::Minutes(_), Some(count)) = (self.iterations, manifest.iterations) {
                self.iterations = Iterations::Count(count);
            }
        }
        let done = self.done();
        match self.iterations {
            Iterations::Count(count) if count < done => {
                return Err(Error::user(format!(
                    "{} ends after {}, but the condensation {} has done {done} already; resume with at least as many, or \
                     start another one with another --out",
                    self.config.place("condense.iterations"),
                    counted(count as u64, "iteration"),
                    self.out.display()
                )));
            }
            _ => {}
        }
        let reached = self.checkpoint.as_ref().map(|_| format!("iteration {done}"));
        report(&CONDENSATION.resuming(&self.out, reached.as_deref()));
        (self.folder, self.before) = (Some(folder), manifest);
        Ok(())
    }

    /// The error of a setting that is another one now.
    fn other(&self, key: &str, old: &str, new: &str) -> Error {
        CONDENSATION.changed(&self.out, (key, old, new))
    }

    /// Iterations that are done.
    pub(super) fn done(&self) -> usize {
        self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.done)
    }

    /// The manifest of the condensation of these images.
    ///
    /// # Errors
    /// Other images than the folder's; a file of an image that cannot be read.
    pub(super) fn manifest(&self, images: &RecipeImages) -> Result<Manifest> {
        let (data, inputs) = (origin(&self.config, images)?, images.inputs(&self.config)?);
        if let Some(before) = &self.before {
            check_origin(CONDENSATION, &self.out, &before.data, &data)?;
            before.inputs.check(&inputs, CONDENSATION.noun, &self.out)?;
            if before.classes != images.names {
                return Err(self.other(
                    "the names of the classes",
                    &before.classes.join(", "),
                    &images.names.join(", "),
                ));
            }
        }
        let settings = resolved(&self.config, &self.settings)?.into_iter();
        Ok(Manifest {
            lessen: env!("CARGO_PKG_VERSION").to_string(),
            recipe: self.config.recipe().to_string(),
            done: self.done(),
            iterations: match self.iterations {
                Iterations::Count(count) => Some(count),
                Iterations::Minutes(_) => None,
            },
            settings: settings.map(|(name, value)| (name.to_string(), value)).collect(),
            learned_rate: self.before.as_ref().and_then(|before| before.learned_rate),
            data,
            inputs,
            shape: images.preprocessing().shape(),
            classes: images.names.clone(),
        })
    }

    /// The settings for the folder, which read the same images again.
    ///
    /// # Errors
    /// None, as long as a share is one that the key takes.
    pub(super) fn settings_of(&self, images: &RecipeImages) -> Result<Settings> {
        let mut settings = reading_the_same(&self.config, images)?;
        let is_given = |key: &str| settings.get(key).is_some();
        let decides = self.settings.objective == Objective::Gradients && !is_given("condense.iterations");
        if decides && !is_given("condense.real_batch") {
            let batch = SettingValue::Count(self.settings.real_batch as u64);
            settings.set_named("condense.real_batch", batch, "the time to fill".to_string())?;
        }
        Ok(settings)
    }

    /// Whether nothing is left to do, as the folder has the images of the last iteration.
    pub(super) fn has_ended(&self) -> bool {
        // The manifest of a coreset that was stopped has all of its 0 iterations, too.
        let count = Some(self.iterations).filter(|_| self.checkpoint.is_some());
        let is_saved = self.before.as_ref().is_some_and(|before| before.done == self.done());
        is_saved && count == Some(Iterations::Count(self.done()))
    }

    /// The folder. A new one is removed when its guard is dropped.
    ///
    /// # Errors
    /// A folder that cannot be created or written to.
    pub(super) fn folder(&self) -> Result<(CondensedFolder, Option<NewFolderGuard>)> {
        match &self.folder {
            Some(folder) => Ok((folder.clone(), None)),
            None => CondensedFolder::create(&self.out).map(|(folder, guard)| (folder, Some(guard))),
        }
    }

    /// The path of the folder.
    pub(super) fn out(&self) -> &Path {
        &self.out
    }
}
