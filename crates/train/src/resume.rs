//! Going on with a run that was killed or interrupted, or that is to get further than it did.

use crate::config::Config;
use crate::config_file::{Written, read_config};
use crate::corpus::Corpus;
use crate::crc::{crc32c, extend};
use crate::folder::Folder;
use crate::progress::{counted, tell};
use crate::run::{Extent, Request};
use crate::saved::{self, Best, DataDigest, Manifest};
use crate::settings::Origin;
use lessen_base::{Error, Result};
use lessen_data::{Labels, Source, Target};
use lessen_nn::ScheduleKind;
use std::path::{Path, PathBuf};

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
            tell(&format!("warning: {error}"));
        }
        tell(&match &newest.whole {
            Some((path, manifest)) => {
                check_init(&written, request)?;
                format!("resuming after step {} from {}", manifest.step, path.display())
            }
            None => format!(
                "{} has no whole checkpoint; starting from step 0",
                request.out.display()
            ),
        });
        let from = newest.whole.map(|(dir, manifest)| Resumed { dir, manifest });
        Ok(Reopened {
            folder,
            written,
            from,
            best,
        })
    }

    /// Refuses to go on with other training data than the run had.
    pub(crate) fn check_data(&self, now: &Config, corpus: &Corpus, digest: DataDigest) -> Result<()> {
        let Some(before) = self.from.as_ref().map(|from| from.manifest.data) else {
            return Ok(());
        };
        if before == digest {
            return Ok(());
        }
        let path = now.data.path.as_deref().unwrap_or(Path::new("")).display();
        let how = if before.size == digest.size {
            "its contents differ".to_string()
        } else {
            let unit = match corpus {
                Corpus::Text(_) => "byte",
                _ => "example",
            };
            format!("{} then, {} now", counted(before.size, unit), digest.size)
        };
        Err(Error::user(format!(
            "the training data {path} is not what the run {} began with ({how}); restore the data, or start another run \
             with another --out",
            self.folder.root().display()
        )))
    }

    /// Refuses a run that is to end before the step that it has got to.
    pub(crate) fn check_end(&self, now: &Config, end: u64) -> Result<()> {
        let done = self.from.as_ref().map_or(0, |from| from.manifest.step);
        if done <= end {
            return Ok(());
        }
        let key = if now.train.steps > 0 {
            "train.steps"
        } else {
            "train.epochs"
        };
        Err(Error::user(format!(
            "{} ends after {}, but the run {} has done {done} already; resume with at least as many, or start another run \
             with another --out",
            now.place(key),
            counted(end, "step"),
            self.folder.root().display()
        )))
    }

    /// Says so where the rest of the run follows another course of the learning rate than its beginning did.
    pub(crate) fn note_course(&self, now: &Config, source: &dyn Source) -> Result<()> {
        let Some(from) = &self.from else { return Ok(()) };
        let before = Config::new(&self.written.recipe, self.written.settings.clone())?;
        let (old, new) = (Extent::of(&before, source).steps, Extent::of(now, source).steps);
        if old != new && now.train.schedule != ScheduleKind::Constant {
            let kind = now.settings.text("train.schedule").unwrap_or_default();
            tell(&format!(
                "note: the run was planned for {} and has {new} now; from step {} on, the learning rate follows a {kind} \
                 schedule over {}",
                counted(old, "step"),
                from.manifest.step + 1,
                counted(new, "step")
            ));
        }
        Ok(())
    }
}

/// Refuses another checkpoint to start from, where the run goes on from its own.
fn check_init(written: &Written, request: &Request) -> Result<()> {
    let origin = request.settings.origin("model.init");
    let init = |settings: &crate::settings::Settings| {
        let path = Path::new(settings.text("model.init")?).to_path_buf();
        Some(path.canonicalize().unwrap_or(path))
    };
    if !matches!(origin, Origin::Flag(_)) || init(&written.settings) == init(&request.settings) {
        return Ok(());
    }
    Err(Error::user(format!(
        "{origin} has no effect on the run {}, which goes on from its own checkpoint; leave it out, or start another run \
         with another --out",
        request.out.display()
    )))
}

/// What tells the training data from other data. Two bytes that no text has are between the texts.
pub(crate) fn digest(corpus: &Corpus) -> DataDigest {
    let data = match corpus {
        Corpus::Adder => return DataDigest::default(),
        Corpus::Text(text) => {
            return DataDigest {
                size: text.train.len() as u64,
                crc: crc32c(text.train.as_bytes()),
            };
        }
        Corpus::Labelled(data) => data,
    };
    let mut crc = 0;
    let mut add = |bytes: &[u8], end: u8| crc = extend(extend(crc, bytes), &[end]);
    if let Target::Classes(names) = &data.target {
        names.iter().for_each(|name| add(name.as_bytes(), 0xFF));
    }
    for (first, second) in &data.train.texts {
        add(first.as_bytes(), 0xFE);
        add(second.as_deref().unwrap_or_default().as_bytes(), 0xFF);
    }
    match &data.train.labels {
        Labels::Classes(classes) => classes.iter().for_each(|class| add(&class.to_le_bytes(), 0xFF)),
        Labels::Scores(scores) => scores.iter().for_each(|score| add(&score.to_le_bytes(), 0xFF)),
    }
    DataDigest {
        size: data.train.len() as u64,
        crc,
    }
}
