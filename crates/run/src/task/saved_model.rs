//! A model that has been saved, with what lies beside its weights.

use super::fit;
use super::model::{self, Sizes};
use super::reader::Reader;
use crate::generation_config::GenerationConfig;
use crate::recipe::config::Config;
use lessen_base::Result;
use lessen_data::Tokenizer;
use lessen_nn::checkpoint::ModelFolder;
use lessen_nn::{Model, Task, numbered_labels};
use std::path::{Path, PathBuf};

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
    /// Reads model and reader from a folder of a run with these settings.
    ///
    /// # Errors
    /// Damaged files, and settings that do not describe the model.
    pub fn read(config: &Config, folder: ModelFolder<'_>) -> Result<SavedModel> {
        let mut model = Model::from_dir(folder)?;
        let reader = Reader::of(folder, &model)?;
        if let Some(dropout) = config.model.dropout {
            model.set_dropout(dropout);
        }
        let saved = SavedModel {
            dir: folder.path().to_path_buf(),
            base: folder.given_base().map(Path::to_path_buf),
            generation: generation_of(folder, &model)?,
            model,
            reader,
        };
        saved.check(config)?;
        Ok(saved)
    }

    /// The folder that it was read from, as what its weights are read from.
    pub fn folder(&self) -> ModelFolder<'_> {
        ModelFolder::from(&self.dir).with_base(self.base.as_deref())
    }

    /// Refuses settings that do not describe the model.
    ///
    /// # Errors
    /// The setting, or the reader of another model.
    pub(crate) fn check(&self, config: &Config) -> Result<()> {
        let (model, reader) = (&self.model, &self.reader);
        let described = described(config, model, reader)?;
        fit::check_saved(config, model, described.as_ref(), reader, &self.dir)
    }

    /// The classes of a classifier that has names for them, and of one of several labels in any case.
    pub(super) fn named_classes(&self) -> Option<Vec<String>> {
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

/// The tokenizer of a model: the one in its folder, or else that of the model that its adapters belong to.
///
/// # Errors
/// A folder without a sound tokenizer.
pub(crate) fn tokenizer_of(folder: ModelFolder<'_>) -> Result<Tokenizer> {
    if Tokenizer::is_in(folder.path()) {
        return Tokenizer::from_dir(folder.path());
    }
    let base = folder.base()?;
    Tokenizer::from_dir(base.as_deref().unwrap_or(folder.path()))
}

/// The model that a run's settings describe, with the tokens, positions and classes of the one that it has saved; none
/// where it began from a checkpoint, which decided everything else.
///
/// # Errors
/// Patches that do not divide the images.
fn described(config: &Config, saved: &Model, reader: &Reader) -> Result<Option<Model>> {
    if config.model.init.is_some() {
        return Ok(None);
    }
    let sizes = Sizes {
        vocab: saved.vocab_size(),
        length: saved.max_length().unwrap_or(config.data.max_length),
        ..Sizes::of(config, Some(reader))
    };
    fit::check_image_size(config, sizes)?;
    let mut model = model::from_scratch(config, sizes);
    if !saved.labels().is_empty() {
        model.set_labels(saved.labels().to_vec());
    }
    Ok(Some(model))
}
