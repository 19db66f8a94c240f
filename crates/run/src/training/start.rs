//! Where a run starts: anew in a folder of its own, or after the newest checkpoint of a run that was killed or
//! interrupted, or that is to get further than it did.

use super::report::Report;
use crate::folder::history::{self, Change};
use crate::folder::manifest::{self, Best, DataDigest, DataDigests, Manifest, PhaseMark, STATE, Waiting, check_states};
use crate::folder::spent::Spent;
use crate::folder::{Folder, NewFolderGuard};
use crate::planning::steps::Steps;
use crate::recipe::config::Config;
use crate::recipe::phases::Recipe;
use crate::recipe::settings::Settings;
use crate::recipe::value::Origin;
use crate::wording::{counted, report, tell};
use lessen_base::{Error, Result};
use lessen_nn::LrScheduleKind;
use std::path::{Path, PathBuf};

/// Settings that may change between a run and its continuation: they change no parameter, or only from the step on
/// at which the run goes on.
const FREE: [&str; 27] = [
    "run.budget",
    "run.cost",
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

/// What to train and where.
#[derive(Clone, Debug)]
pub struct Request {
    settings: Settings,
    out: PathBuf,
    /// For a run to go on with, its settings up to now.
    before: Option<Settings>,
}

impl Request {
    /// A new run with these settings in this folder.
    pub fn new(settings: Settings, out: PathBuf) -> Request {
        Request {
            settings,
            out,
            before: None,
        }
    }

    /// The run in a folder, which goes on with the settings that it has there. `change` puts flags over them; `recipe`
    /// names the recipe that the run must be of.
    ///
    /// # Errors
    /// A folder without a run, a run of another recipe, the errors of `change`.
    pub fn resume(
        out: PathBuf,
        recipe: Option<&str>,
        change: impl FnOnce(&mut Settings) -> Result<()>,
    ) -> Result<Request> {
        let before = Folder::open(&out)?.settings()?;
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
        })
    }
}

/// A checkpoint to go on from.
struct Checkpoint {
    dir: PathBuf,
    manifest: Manifest,
}

/// Where a run starts.
pub(crate) struct Start {
    /// The recipe.
    pub recipe: Recipe,
    /// The phase of the checkpoint to go on from, or the first one.
    at: usize,
    out: PathBuf,
    /// The folder of a run that goes on.
    folder: Option<Folder>,
    /// The newest checkpoint of a run that goes on, if there is one.
    checkpoint: Option<Checkpoint>,
    /// The evaluation that the best model is of, if there is one.
    pub best: Option<Best>,
    /// The settings that are others than before, with both values.
    changes: Vec<(String, String, String)>,
}

impl Start {
    /// Opens the folder of a run to go on with, or checks that a new one may be created.
    ///
    /// # Errors
    /// A folder that cannot be used, and settings that cannot be meant.
    pub(crate) fn of(request: &Request) -> Result<Start> {
        let recipe = |settings: &Settings| Recipe::new(settings.clone().with_absolute_paths());
        let out = request.out.clone();
        let Some(before) = &request.before else {
            Folder::check_free(&out)?;
            return Ok(Start {
                recipe: recipe(&request.settings)?,
                at: 0,
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
        for error in newest.passed_over {
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
            None => format!("{} has no whole checkpoint; starting from step 0", out.display()),
        });
        let checkpoint = newest.whole.map(|(dir, manifest)| Checkpoint { dir, manifest });
        let recipe = recipe(&request.settings)?;
        let at = match &checkpoint {
            Some(from) => phase_of(&recipe, from)?,
            None => 0,
        };
        if at > 0 {
            check_finished(&Recipe::new(before.clone())?.phases[..at], &recipe)?;
        }
        Ok(Start {
            changes: before.changes(&recipe.settings),
            recipe,
            at,
            out,
            folder: Some(folder),
            checkpoint,
            best,
        })
    }

    /// The settings of the phases that are left to do, the one that has begun included.
    pub(crate) fn configs(&self) -> &[Config] {
        &self.recipe.phases[self.at..]
    }

    /// What the checkpoint to go on from says of its phase; none in a run without phases.
    pub(crate) fn mark(&self) -> Option<&PhaseMark> {
        self.checkpoint.as_ref()?.manifest.phase.as_ref()
    }

    /// The report of a run of `total` steps that has ended and has nothing left to do; its folder stays as it is.
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

    /// Writes the settings of the run and, where they are others than before, their history; says what changed.
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

    /// What the run has taken so far.
    pub(crate) fn spent(&self) -> Spent {
        self.folder
            .as_ref()
            .map_or(Spent::default(), |folder| Spent::read(&folder.sessions()))
    }

    /// Whether the run, or its phase, ended with the checkpoint to go on from, since it had waited long enough.
    pub(crate) fn has_stopped(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(|from| from.manifest.stopped)
    }

    /// How long the run has waited for a better evaluation.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        self.checkpoint.as_ref()?.manifest.waiting
    }

    /// Whether the checkpoint to go on from has the optimizer's state, if there is one.
    pub(crate) fn has_optimizer(&self) -> bool {
        self.checkpoint
            .as_ref()
            .is_none_or(|from| !from.manifest.without_optimizer)
    }

    /// The step after which the optimizer began: that of a checkpoint without its state.
    pub(crate) fn optimizer_since(&self) -> u64 {
        let manifest = self.checkpoint.as_ref().map(|from| &from.manifest);
        manifest.map_or(0, |manifest| match manifest.without_optimizer {
            true => manifest.step,
            false => manifest.optimizer_since,
        })
    }

    /// Steps done already.
    pub(crate) fn step(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, |from| from.manifest.step)
    }

    /// The folder of the checkpoint to go on from.
    pub(crate) fn saved(&self) -> Option<&Path> {
        self.checkpoint.as_ref().map(|from| from.dir.as_path())
    }

    /// The file with the states of training in the checkpoint to go on from.
    ///
    /// # Errors
    /// A file that does not hold what the checkpoint says.
    pub(crate) fn states(&self) -> Result<Option<PathBuf>> {
        let Some(from) = &self.checkpoint else { return Ok(None) };
        check_states(&from.dir, &from.manifest)?;
        Ok(Some(from.dir.join(STATE)))
    }

    /// Refuses to go on with other data than the run had; `unit` is what its size counts.
    pub(crate) fn check_data(&self, now: DataDigests, unit: &str) -> Result<()> {
        let Some(before) = self.checkpoint.as_ref().map(|from| from.manifest.data) else {
            return Ok(());
        };
        self.check_split("training", before.train, now.train, unit)?;
        self.check_split("validation", before.dev, now.dev, unit)
    }

    fn check_split(&self, split: &str, before: DataDigest, now: DataDigest, unit: &str) -> Result<()> {
        if before == now {
            return Ok(());
        }
        let path = self.configs()[0]
            .data
            .path
            .as_deref()
            .unwrap_or(Path::new(""))
            .display();
        let how = if before.size == now.size {
            "its contents differ".to_string()
        } else {
            format!("{} then, {} now", counted(before.size, unit), now.size)
        };
        Err(Error::user(format!(
            "the {split} data {path} is not what the run {} began with ({how}); restore the data, or start another run \
             with another --out",
            self.out.display()
        )))
    }

    /// Refuses a run, or a phase of it, that is to end before the step that it has got to, and says so where its rest
    /// follows another schedule of the learning rate than its beginning did. `steps` are those of the phase.
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

    /// The folder of the run; that of a new run is removed when its guard is dropped.
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

/// The number of the phase that a checkpoint belongs to.
///
/// # Errors
/// A phase that the recipe does not have.
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

/// Refuses another number of steps for a phase that is finished: later ones began where it ended.
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

/// Refuses another checkpoint to start from, where the run goes on from its own.
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
