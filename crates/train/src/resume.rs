//! Going on with a run that was killed or interrupted, or that is to get further than it did.

use crate::config::Config;
use crate::config_file::{Written, read_config};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::run::{Extent, Request};
use crate::saved::{self, Best, Manifest};
use lessen_data::Source;
use lessen_nn::ScheduleKind;
use std::path::PathBuf;

/// Settings that may change between a run and its continuation: they change no parameter, or only from the step on
/// at which the run goes on.
const FREE: [&str; 10] = [
    "train.steps",
    "train.epochs",
    "train.lr",
    "train.clip_norm",
    "train.eval_every",
    "train.checkpoint_every",
    "data.path",
    "model.init",
    "model.vocab",
    "optimizer.placement",
];

/// A run to go on with.
pub(crate) struct Reopened {
    pub folder: Folder,
    /// What it was told to be up to now.
    pub written: Written,
    /// The newest checkpoint, if there is one.
    pub from: Option<Resumed>,
    /// The evaluation that the best model is of, if there is one.
    pub best: Option<Best>,
}

/// The checkpoint that a run goes on from.
pub(crate) struct Resumed {
    pub dir: PathBuf,
    pub manifest: Manifest,
}

impl Reopened {
    /// Opens the folder of a run to go on with.
    pub(crate) fn new(request: &Request) -> Result<Reopened> {
        let folder = Folder::reopen(&request.out)?;
        let written = read_config(&folder)?;
        if let Some((key, old, new)) = written.settings.difference(&request.settings, &FREE) {
            return Err(Error::user(format!(
                "{key} was {old} in the run {} and is {new} now; resume with the same settings, or start another run",
                request.out.display()
            )));
        }
        let best = saved::read_best(&folder.best())?;
        let newest = folder.newest_checkpoint()?;
        for error in newest.passed_over {
            eprintln!("warning: {error}");
        }
        match &newest.whole {
            Some((path, manifest)) => {
                eprintln!("resuming after step {} from {}", manifest.step, path.display())
            }
            None => eprintln!(
                "{} has no whole checkpoint; starting from step 0",
                request.out.display()
            ),
        }
        let from = newest.whole.map(|(dir, manifest)| Resumed { dir, manifest });
        Ok(Reopened {
            folder,
            written,
            from,
            best,
        })
    }

    /// Says so where the rest of the run follows another course of the learning rate than its beginning did.
    pub(crate) fn note_course(&self, now: &Config, source: &dyn Source) -> Result<()> {
        let Some(from) = &self.from else { return Ok(()) };
        let before = Config::new(&self.written.recipe, self.written.settings.clone())?;
        let (old, new) = (Extent::of(&before, source).steps, Extent::of(now, source).steps);
        if old != new && now.train.schedule != ScheduleKind::Constant {
            let kind = now.settings.text("train.schedule").unwrap_or_default();
            eprintln!(
                "note: the run was planned for {old} steps and has {new} now; from step {} on, the learning rate \
                 follows a {kind} schedule over {new} steps",
                from.manifest.step + 1
            );
        }
        Ok(())
    }
}
