//! A model that has been saved, with what lies beside its weights.

use super::reader::Reader;
use crate::formats::KnownModel;
use crate::generation_config::GenerationConfig;
use lessen_base::Result;
use lessen_nn::checkpoint::ModelFolder;
use lessen_nn::{Model, Task, numbered_labels};
use std::path::PathBuf;

/// A model that a run has saved, with what reads its examples.
#[derive(Clone)]
pub struct SavedModel {
    /// The folder that it was read from.
    pub dir: PathBuf,
    /// The folder of the model that adapters in it belong to, where another one than they name.
    pub base: Option<PathBuf>,
    /// The model.
    pub model: Model,
    /// Its tokenizer, or how images become what it sees.
    pub reader: Reader,
    /// How it continues texts, where its folder says so.
    pub generation: Option<GenerationConfig>,
}

impl SavedModel {
    /// The folder that it was read from, as what its weights are read from.
    pub fn folder(&self) -> ModelFolder<'_> {
        ModelFolder::from(&self.dir).with_base(self.base.as_deref())
    }

    /// What is known of it before data is read.
    pub(super) fn known(&self) -> KnownModel {
        KnownModel {
            classes: self.named_classes(),
            channels: self.model.image().map(|[.., channels]| channels),
        }
    }

    /// The classes of a classifier that has names for them, and of one of several labels in any case.
    fn named_classes(&self) -> Option<Vec<String>> {
        let names = self.model.labels();
        let has_names = match self.model.task() {
            Task::Classification { .. } => *names != numbered_labels(names.len()),
            // Targets have a column for each of them.
            Task::MultiLabelClassification { .. } => true,
            _ => false,
        };
        has_names.then(|| names.to_vec())
    }
}

/// How the model of a folder continues texts, if it does and the folder says so.
pub(super) fn generation_of(folder: ModelFolder<'_>, model: &Model) -> Result<Option<GenerationConfig>> {
    match model.decoder() {
        Some(_) => GenerationConfig::read(folder),
        None => Ok(None),
    }
}
