//! A saved model with the other files of its folder.

use crate::formats::KnownModel;
use crate::generation_config::GenerationConfig;
use crate::reader::Reader;
use crate::recipe::config::Config;
use lessen_base::Result;
use lessen_nn::checkpoint::{ModelFolder, WeightedAdapter};
use lessen_nn::{Model, Task, numbered_labels};
use std::path::PathBuf;

/// A saved model with its reader.
#[derive(Clone)]
pub struct SavedModel {
    /// The folder that it was read from.
    pub dir: PathBuf,
    /// The folder of the model that its adapters belong to, where it is another than they name.
    pub base: Option<PathBuf>,
    /// The adapters that are added to it.
    pub added: Vec<WeightedAdapter>,
    /// The model.
    pub model: Model,
    /// The model's tokenizer, or the preprocessing of its images.
    pub reader: Reader,
    /// Its generation configuration, if its folder has one.
    pub generation: Option<GenerationConfig>,
}

impl SavedModel {
    /// The folder of its weights.
    pub fn folder(&self) -> ModelFolder<'_> {
        let folder = ModelFolder::from(&self.dir).with_base(self.base.as_deref());
        folder.with_adapters(&self.added)
    }

    /// Its traits that decide how the data of a recipe is read. The labels of data that is only evaluated are looked up
    /// in its classes, also where these have no names of their own.
    pub(crate) fn known(&self, config: &Config) -> KnownModel {
        let all = || Some(self.model.labels().to_vec()).filter(|names| !names.is_empty());
        KnownModel {
            classes: if config.is_whole { all() } else { self.named_classes() },
            channels: self.model.image().map(|[.., channels]| channels),
            schema: self.reader.table().ok().cloned(),
        }
    }

    /// The classes of a classifier that has named them, or has several labels.
    fn named_classes(&self) -> Option<Vec<String>> {
        let names = self.model.labels();
        let has_names = match self.model.task() {
            Task::Classification { .. } => *names != numbered_labels(names.len()),
            // Targets have a column for each label.
            Task::MultiLabelClassification { .. } => true,
            _ => false,
        };
        has_names.then(|| names.to_vec())
    }
}

/// The generation configuration in the folder of a model that continues texts, if it has one.
pub(crate) fn generation_of(folder: ModelFolder<'_>, model: &Model) -> Result<Option<GenerationConfig>> {
    match model.decoder() {
        Some(_) => GenerationConfig::read(folder),
        None => Ok(None),
    }
}
