//! Going on with a run that was killed or interrupted.

use crate::error::{Error, Result};
use crate::finished::read_config;
use crate::folder::Folder;
use crate::run::Request;
use crate::saved::Manifest;
use std::path::PathBuf;

/// Settings that may change between a run and its continuation: they change no parameter, or only from the step on
/// at which the run goes on.
const FREE: [&str; 8] = [
    "train.steps",
    "train.epochs",
    "train.eval_every",
    "train.checkpoint_every",
    "data.path",
    "model.init",
    "model.vocab",
    "optimizer.placement",
];

/// The checkpoint that a run goes on from.
pub(crate) struct Resumed {
    pub dir: PathBuf,
    pub manifest: Manifest,
}

/// Opens the folder of a run to go on with; the newest checkpoint, if there is one.
pub(crate) fn reopen(request: &Request) -> Result<(Folder, Option<Resumed>)> {
    let folder = Folder::reopen(&request.out)?;
    let (_, settings) = read_config(&folder)?;
    if let Some((key, old, new)) = settings.difference(&request.settings, &FREE) {
        return Err(Error::user(format!(
            "{key} was {old} in the run {} and is {new} now; resume with the same settings, or start another run",
            request.out.display()
        )));
    }
    let newest = folder.newest_checkpoint()?;
    for error in newest.passed_over {
        eprintln!("warning: {error}");
    }
    match &newest.whole {
        Some((path, manifest)) => eprintln!("resuming after step {} from {}", manifest.step, path.display()),
        None => eprintln!(
            "{} has no whole checkpoint; starting from step 0",
            request.out.display()
        ),
    }
    Ok((
        folder,
        newest.whole.map(|(dir, manifest)| Resumed { dir, manifest }),
    ))
}
