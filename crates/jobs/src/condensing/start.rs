//! The start of a condensation: in a new folder, or after the checkpoint of one that was killed or interrupted, or that
//! is to have more iterations.

use super::folder::CondensedFolder;
use super::manifest::{Condensed, Manifest};
use super::settings::{Iterations, condensation, iterations, resolved};
use crate::job::{self, CONDENSATION, RecipeImages, Request, reading_the_same};
use crate::schema::CondenseKeys;
use lessen_base::{Error, Result};
use lessen_condense::{Objective, Settings as Condensation};
use lessen_task::folder::NewFolderGuard;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::SettingValue;
use lessen_task::wording::counted;

/// Keys that may change when a condensation is resumed, beside its own, of which the manifest tells whether they do:
/// they change no image.
const FREE: [&str; 4] = ["run.budget", "data.path", "data.dev", "data.test"];

/// The start of a condensation.
pub(super) struct Start {
    /// The start as any job has it.
    pub job: job::Start<Condensed>,
    /// How the images are made.
    pub settings: Condensation,
    /// How long it goes on.
    pub iterations: Iterations,
}

impl Start {
    /// Opens the folder of a condensation that is resumed, or checks that a new one may be created.
    ///
    /// # Errors
    /// A folder that cannot be used, and settings that do not go together.
    pub(super) fn of(request: &Request) -> Result<Start> {
        let job = job::Start::of(request, CONDENSATION)?;
        let settings = condensation(&job.config)?;
        let keys = job.config.settings.section::<CondenseKeys>()?;
        let mut start = Start {
            iterations: iterations(&keys, &settings),
            settings,
            job,
        };
        let is_free = |name: &str| FREE.contains(&name) || name.starts_with("condense.");
        start.job.open(request, is_free)?;
        start.go_on()?;
        Ok(start)
    }

    /// Refuses other settings than those of the folder, and fewer iterations than are done.
    fn go_on(&mut self) -> Result<()> {
        if let Some(before) = &self.job.before {
            for (name, value) in resolved(&self.job.config, &self.settings)? {
                let old = before.own.settings.get(name).map_or("nothing", String::as_str);
                if old != value {
                    return Err(self.other(&format!("condense.{name}"), old, &value));
                }
            }
            if let (Iterations::Minutes(_), Some(count)) = (self.iterations, before.own.iterations) {
                self.iterations = Iterations::Count(count);
            }
        }
        let done = self.job.done();
        match self.iterations {
            Iterations::Count(count) if count < done => {
                return Err(Error::user(format!(
                    "{} ends after {}, but the condensation {} has done {done} already; resume with at least as many, or \
                     start another one with another --out",
                    self.job.config.place("condense.iterations"),
                    counted(count as u64, "iteration"),
                    self.job.out().display()
                )));
            }
            _ => {}
        }
        let reached = self.job.checkpoint.as_ref().map(|_| format!("iteration {done}"));
        self.job.announce(reached.as_deref());
        Ok(())
    }

    /// The error of a setting that is another one now.
    fn other(&self, key: &str, old: &str, new: &str) -> Error {
        CONDENSATION.changed(self.job.out(), (key, old, new))
    }

    /// The manifest of the condensation of these images.
    ///
    /// # Errors
    /// Other images than the folder's; a file of an image that cannot be read.
    pub(super) fn manifest(&self, images: &RecipeImages) -> Result<Manifest> {
        let settings = resolved(&self.job.config, &self.settings)?.into_iter();
        let own = Condensed {
            iterations: match self.iterations {
                Iterations::Count(count) => Some(count),
                Iterations::Minutes(_) => None,
            },
            settings: settings.map(|(name, value)| (name.to_string(), value)).collect(),
            learned_rate: self.job.before.as_ref().and_then(|before| before.own.learned_rate),
        };
        let manifest = self.job.manifest(images, own)?;
        match &self.job.before {
            Some(before) if before.classes != images.names => Err(self.other(
                "the names of the classes",
                &before.classes.join(", "),
                &images.names.join(", "),
            )),
            _ => Ok(manifest),
        }
    }

    /// The settings for the folder, which read the same images again.
    ///
    /// # Errors
    /// None, as long as a share is one that the key takes.
    pub(super) fn settings_of(&self, images: &RecipeImages) -> Result<Settings> {
        let mut settings = reading_the_same(&self.job.config, images)?;
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
        let done = self.job.done();
        // The manifest of a coreset that was stopped has all of its 0 iterations, too.
        let count = Some(self.iterations).filter(|_| self.job.checkpoint.is_some());
        let is_saved = self.job.before.as_ref().is_some_and(|before| before.done == done);
        is_saved && count == Some(Iterations::Count(done))
    }

    /// The folder. A new one is removed when its guard is dropped.
    ///
    /// # Errors
    /// A folder that cannot be created or written to.
    pub(super) fn folder(&self) -> Result<(CondensedFolder, Option<NewFolderGuard>)> {
        self.job.folder().map(|(folder, guard)| (folder.into(), guard))
    }
}
