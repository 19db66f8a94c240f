//! The start of a run: in a new folder, or after the newest checkpoint of a run that was killed or interrupted, or that
//! is to have more steps.

use super::report::Report;
use crate::job::Request;
use crate::job::processes::in_groups;
use crate::planning::steps::Steps;
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_nn::LrScheduleKind;
use lessen_task::folder::checkpoints::Newest;
use lessen_task::folder::history::{self, Change};
use lessen_task::folder::manifest::{
    self, Best, DataDigest, DataDigests, Manifest, PhaseMark, REMEDY, STATE, Waiting, check_states,
};
use lessen_task::folder::spent::Spent;
use lessen_task::folder::{Folder, NewFolderGuard};
use lessen_task::input_files::InputFiles;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::phases::Recipe;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::Origin;
use lessen_task::shared_data::SharedData;
use lessen_task::wording::{counted, report, some_of, tell};
use std::path::{Path, PathBuf};

/// Settings that may change when a run is resumed: they change no parameter, or only parameters of later steps.
const FREE: [&str; 28] = [
    "run.budget",
    "run.cost",
    "train.shard_parameters",
    "train.steps",
    "train.epochs",
    "train.lr",
    "train.clip_norm",
    "train.eval_every",
    "train.checkpoint_every",
    "train.save_dtype",
    "train.save_optimizer",
    "train.checkpoint_minutes",
    "train.keep",
    "train.best",
    "train.patience",
    "data.path",
    "data.dev",
    "data.test",
    "data.threshold",
    "data.cache",
    "data.cache_from",
    "model.init",
    "model.base",
    "model.vocab",
    "optimizer.placement",
    "record.every",
    "record.what",
    "record.split",
];

/// The checkpoint that a run resumes from.
struct Checkpoint {
    dir: PathBuf,
    manifest: Manifest,
}

/// The start of a run.
pub(crate) struct Start {
    /// The recipe.
    pub recipe: Recipe,
    /// The number of the checkpoint's training phase; 0 in a new run.
    at: usize,
    /// Data that the run shares with others.
    shared: SharedData,
    /// Whether batches are given one by one, so that those of the data are examples of them at most.
    pub is_fed: bool,
    /// The processes that share the run.
    pub group: Group,
    out: PathBuf,
    /// The folder of a run that is resumed.
    folder: Option<Folder>,
    /// The newest checkpoint of a run that is resumed, if there is one.
    checkpoint: Option<Checkpoint>,
    /// The evaluation of the best model, if there is one.
    pub best: Option<Best>,
    /// The settings that differ from the settings before, with both values.
    changes: Vec<(String, String, String)>,
}

impl Start {
    /// Opens the folder of a run that is resumed, or checks that a new one may be created.
    ///
    /// # Errors
    /// A folder that cannot be used, and settings that do not go together.
    pub(crate) fn of(request: &Request) -> Result<Start> {
        let recipe = |settings: &Settings| Recipe::new(settings.clone().with_absolute_paths());
        let out = request.out.clone();
        let Some(before) = &request.before else {
            Folder::check_free(&out)?;
            return Ok(Start {
                recipe: recipe(&in_groups(request.settings.clone(), request.group.size())?)?,
                group: request.group.clone(),
                at: 0,
                shared: request.shared.clone(),
                is_fed: request.feed.is_some(),
                out,
                folder: None,
                checkpoint: None,
                best: None,
                changes: Vec::new(),
            });
        };
        let folder = Folder::reopen(&out)?;
        if let Some((key, old, new)) = before.difference(&request.settings, &FREE) {
            return Err(Error::user(format!(
                "{key} was {old} in the run {} and is {new} now; resume with the same settings, or start another run",
                out.display()
            )));
        }
        let best = manifest::read_best(&folder.best())?;
        let newest = folder.checkpoints().newest()?;
        if newest.whole.is_none() {
            check_nothing_is_lost(&folder, &newest)?;
        }
        for error in &newest.passed_over {
            tell(&format!("warning: {error}"));
        }
        report(&match &newest.whole {
            Some((path, manifest)) => {
                check_init(before, request)?;
                if manifest.without_optimizer {
                    tell(
                        "note: the checkpoint has no optimizer state (train.save_optimizer = false): moments and averages \
                         begin anew, so the run ends with other parameters than one that was not interrupted",
                    );
                }
                format!("resuming after step {} from {}", manifest.step, path.display())
            }
            None => format!("{} has no checkpoint yet; starting from step 0", out.display()),
        });
        let checkpoint = newest.whole.map(|(dir, manifest)| Checkpoint { dir, manifest });
        let recipe = recipe(&request.settings)?;
        request.check_data("run", &recipe.phases[0])?;
        let at = match &checkpoint {
            Some(from) => phase_of(&recipe, from)?,
            None => 0,
        };
        if at > 0 {
            check_finished(&Recipe::new(before.clone())?.phases[..at], &recipe)?;
        }
        Ok(Start {
            group: request.group.clone(),
            changes: before.changes(&recipe.settings),
            recipe,
            at,
            shared: request.shared.clone(),
            is_fed: request.feed.is_some(),
            out,
            folder: Some(folder),
            checkpoint,
            best,
        })
    }

    /// The settings of the training phases that are left, the one that has begun included.
    pub(crate) fn configs(&self) -> &[Config] {
        &self.recipe.phases[self.at..]
    }

    /// Data that the run shares with others.
    pub(crate) fn shared(&self) -> &SharedData {
        &self.shared
    }

    /// What the checkpoint says of its training phase; none in a run without phases.
    pub(crate) fn mark(&self) -> Option<&PhaseMark> {
        self.checkpoint.as_ref()?.manifest.phase.as_ref()
    }

    /// The report of a run of `total` steps with nothing left to train; its folder stays unchanged. None for other
    /// runs.
    ///
    /// # Errors
    /// A report that cannot be read.
    pub(crate) fn ended(&self, total: u64) -> Result<Option<Report>> {
        let (Some(folder), Some(from)) = (&self.folder, &self.checkpoint) else {
            return Ok(None);
        };
        let has_stopped = from.manifest.stopped && self.configs().len() == 1 && self.changes.is_empty();
        let has_ended = from.manifest.step == total || has_stopped;
        if has_ended && folder.model().is_dir() && folder.report().is_file() {
            return Report::of_ended(folder, from.manifest.step).map(Some);
        }
        Ok(None)
    }

    /// Writes the settings of the run and, where they differ from the settings before, their history; tells the
    /// changes.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(crate) fn write_settings(&self, folder: &Folder) -> Result<()> {
        history::add(&folder.history(), self.step(), &self.changes)?;
        if !self.changes.is_empty() {
            let (step, changes) = (self.step(), self.changes.clone());
            tell(&format!("note: {}", Change { step, changes }.to_text()));
        }
        folder.write_settings(&self.recipe.settings)
    }

    /// Time and memory of the sessions before this one.
    pub(crate) fn spent(&self) -> Spent {
        self.folder
            .as_ref()
            .map_or(Spent::default(), |folder| Spent::read(&folder.sessions()))
    }

    /// Whether the training phase ended early with the checkpoint.
    pub(crate) fn has_stopped(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(|from| from.manifest.stopped)
    }

    /// How long the training phase has waited for a better evaluation.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        self.checkpoint.as_ref()?.manifest.waiting
    }

    /// Whether the checkpoint, if there is one, has the optimizer's state.
    pub(crate) fn has_optimizer(&self) -> bool {
        self.checkpoint
            .as_ref()
            .is_none_or(|from| !from.manifest.without_optimizer)
    }

    /// The step after which the optimizer's state began: that of the last checkpoint without it, else 0.
    pub(crate) fn optimizer_since(&self) -> u64 {
        let manifest = self.checkpoint.as_ref().map(|from| &from.manifest);
        manifest.map_or(0, |manifest| {
            if manifest.without_optimizer {
                manifest.step
            } else {
                manifest.optimizer_since
            }
        })
    }

    /// Number of steps that are done.
    pub(crate) fn step(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, |from| from.manifest.step)
    }

    /// The folder of the checkpoint.
    pub(crate) fn saved(&self) -> Option<&Path> {
        self.checkpoint.as_ref().map(|from| from.dir.as_path())
    }

    /// The checkpoint's file with the states of training.
    ///
    /// # Errors
    /// A file that does not hold what the checkpoint says.
    pub(crate) fn states(&self) -> Result<Option<PathBuf>> {
        let Some(from) = &self.checkpoint else { return Ok(None) };
        check_states(&from.dir, &from.manifest)?;
        Ok(Some(from.dir.join(STATE)))
    }

    /// Refuses other data than the run had. Sizes of data are numbers of `unit`.
    pub(crate) fn check_data(&self, now: DataDigests, unit: &str) -> Result<()> {
        let Some(before) = self.checkpoint.as_ref().map(|from| from.manifest.data) else {
            return Ok(());
        };
        self.check_split("training", before.train, now.train, unit)?;
        self.check_split("validation", before.dev, now.dev, unit)
    }

    /// Refuses other files of settings than the run had. Runs of earlier versions have not noted them.
    pub(crate) fn check_inputs(&self, now: &InputFiles) -> Result<()> {
        match &self.checkpoint {
            Some(from) => from.manifest.inputs.check(now, "run", &self.out),
            None => Ok(()),
        }
    }

    fn check_split(&self, split: &str, before: DataDigest, now: DataDigest, unit: &str) -> Result<()> {
        if before == now {
            return Ok(());
        }
        let path = self.configs()[0].data.path.as_deref();
        let place = path.map_or("in memory".to_string(), |path| path.display().to_string());
        let how = if before.size == now.size {
            "its contents differ".to_string()
        } else {
            format!("{} then, {} now", counted(before.size, unit), now.size)
        };
        Err(Error::user(format!(
            "the {split} data {place} is not what the run {} began with ({how}); restore the data, or start another run \
             with another --out",
            self.out.display()
        )))
    }

    /// Refuses a training phase of fewer steps than are done, and tells where its rest follows another learning-rate
    /// schedule than its beginning. `steps` are the steps of the training phase.
    pub(crate) fn check_steps(&self, steps: Steps) -> Result<()> {
        let Some(Checkpoint { manifest, .. }) = &self.checkpoint else {
            return Ok(());
        };
        let begun = manifest.phase.as_ref().map_or(0, |phase| phase.begun);
        let (config, done) = (&self.configs()[0], manifest.step - begun);
        let train = &config.train;
        if steps.total < done {
            let key = match train.steps {
                0 => "train.epochs",
                _ => "train.steps",
            };
            return Err(Error::user(format!(
                "{} ends after {}, but the run {} has done {done} already; resume with at least as many, or start another \
                 run with another --out",
                config.place(key),
                counted(steps.total, "step"),
                self.out.display()
            )));
        }
        if steps.total != manifest.planned_steps && train.schedule != LrScheduleKind::Constant {
            let kind = config.settings.text("train.schedule").unwrap_or_default();
            let what = match &config.phase {
                Some(name) => format!("the phase {name}"),
                None => "the run".to_string(),
            };
            tell(&format!(
                "note: {what} was planned for {} and has {} now; from step {} on, the learning rate follows a {kind} \
                 schedule over {}",
                counted(manifest.planned_steps, "step"),
                steps.total,
                manifest.step + 1,
                counted(steps.total, "step")
            ));
        }
        Ok(())
    }

    /// The folder of the run. A new one is removed when its guard is dropped.
    ///
    /// # Errors
    /// A folder that cannot be created or written to.
    pub(crate) fn folder(&self) -> Result<(Folder, Option<NewFolderGuard>)> {
        match &self.folder {
            Some(folder) => Ok((folder.clone(), None)),
            None => Folder::create(&self.out).map(|(folder, guard)| (folder, Some(guard))),
        }
    }
}

/// Refuses to begin a run again that has damaged checkpoints, or a model at its end, but no whole checkpoint.
fn check_nothing_is_lost(folder: &Folder, newest: &Newest) -> Result<()> {
    let shown = folder.root().display();
    let reason = |error: &Error| {
        let sentence = error.to_string();
        sentence.strip_suffix(REMEDY).unwrap_or(&sentence).to_string()
    };
    let damaged: Vec<String> = newest.passed_over.iter().map(reason).collect();
    if damaged.is_empty() && !folder.model().exists() {
        return Ok(());
    }
    let what = if damaged.is_empty() {
        String::new()
    } else {
        format!(": {}", some_of(&damaged))
    };
    Err(Error::user(format!(
        "the run {shown} was left as it is, since it has no whole checkpoint to resume from{what}; restore a checkpoint, or \
         start another run with another --out"
    )))
}

/// The number of a checkpoint's training phase.
///
/// # Errors
/// A training phase that the recipe does not have.
fn phase_of(recipe: &Recipe, from: &Checkpoint) -> Result<usize> {
    let name = from.manifest.phase.as_ref().map(|phase| phase.name.as_str());
    let found = recipe.phases.iter().position(|config| config.phase.as_deref() == name);
    found.ok_or_else(|| {
        let shown = from.dir.display();
        Error::user(match name {
            Some(name) => {
                format!("{shown} is of the phase {name}, which the run's config.toml lacks; restore the file")
            }
            None => format!("{shown} is of no phase, but the run's config.toml has phases; restore the file"),
        })
    })
}

/// Refuses another number of steps for a training phase that is finished: later ones began at its end.
fn check_finished(finished: &[Config], recipe: &Recipe) -> Result<()> {
    for (before, now) in finished.iter().zip(&recipe.phases) {
        for (key, changed) in [
            ("train.steps", before.train.steps != now.train.steps),
            ("train.epochs", before.train.epochs != now.train.epochs),
        ] {
            if changed {
                return Err(Error::user(format!(
                    "{} is too late for the phase {}, which the run has finished; leave it out",
                    now.place(key),
                    now.phase.as_deref().unwrap_or_default()
                )));
            }
        }
    }
    Ok(())
}

/// Refuses another `model.init` for a run that resumes from its own checkpoint.
fn check_init(before: &Settings, request: &Request) -> Result<()> {
    let origin = request.settings.origin("model.init");
    let init = |settings: &Settings| {
        let path = Path::new(settings.text("model.init")?).to_path_buf();
        Some(path.canonicalize().unwrap_or(path))
    };
    if !matches!(origin, Origin::Flag(_)) || init(before) == init(&request.settings) {
        return Ok(());
    }
    Err(Error::user(format!(
        "{origin} has no effect on the run {}, which goes on from its own checkpoint; leave it out, or start another run \
         with another --out",
        request.out.display()
    )))
}
