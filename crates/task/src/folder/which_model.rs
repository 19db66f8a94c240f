//! The models of a run that a command can take.

use super::Folder;
use super::manifest::{self, Manifest};
use lessen_base::{Error, Result};
use std::path::PathBuf;

/// A choice among the models of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhichModel {
    /// The model at the end of the run.
    #[default]
    Last,
    /// The model of the best evaluation.
    Best,
    /// The model of the checkpoint after this number of steps.
    Step(u64),
}

impl Folder {
    /// A model of the run, and the name of its training phase; none means the last training phase. The last model of a
    /// run that has not ended is the model of its newest checkpoint.
    ///
    /// # Errors
    /// A run that has not saved this model.
    pub fn usable_model(&self, which: WhichModel) -> Result<(PathBuf, Option<String>)> {
        let (shown, of_phase) = (self.root.display(), |manifest: Manifest| {
            manifest.phase.map(|phase| phase.name)
        });
        match which {
            WhichModel::Best if self.best().is_dir() => {
                let phase = manifest::read_best(&self.best())?.and_then(|best| best.phase);
                Ok((self.best(), phase))
            }
            WhichModel::Best => Err(Error::user(format!(
                "{shown} has no best model; leave out --best to use the last one"
            ))),
            WhichModel::Last if self.model().is_dir() => Ok((self.model(), None)),
            WhichModel::Last => {
                let newest = self.checkpoints().newest()?.whole;
                newest
                    .map(|(path, manifest)| (path, of_phase(manifest)))
                    .ok_or_else(|| {
                        Error::user(format!(
                            "{shown} has no saved model yet; go on with `lessen train --resume --out {shown}`"
                        ))
                    })
            }
            WhichModel::Step(step) => {
                let (path, manifest) = self.checkpoints().after(step)?;
                Ok((path, of_phase(manifest)))
            }
        }
    }
}
