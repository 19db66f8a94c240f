//! Whether a saved model is the one that a run's settings describe.

use super::inputs::{check_image_size, check_inputs, check_length, check_reader};
use crate::models::{self, Sizes};
use crate::reader::Reader;
use crate::recipe::config::Config;
use crate::recipe::value::Origin;
use crate::recipe_model::{head_of, set_architecture, set_layers};
use crate::saved_model::{SavedModel, generation_of};
use lessen_base::{Error, Result};
use lessen_nn::Model;
use lessen_nn::checkpoint::ModelFolder;
use std::path::Path;

impl SavedModel {
    /// Reads a model and its reader from a folder of a run with these settings.
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
            added: folder.added().to_vec(),
            generation: generation_of(folder, &model)?,
            model,
            reader,
        };
        saved.check(config)?;
        Ok(saved)
    }

    /// Refuses settings that do not describe the model.
    ///
    /// # Errors
    /// The setting, or the reader of another model.
    pub fn check(&self, config: &Config) -> Result<()> {
        let (model, reader) = (&self.model, &self.reader);
        let described = described(config, model, reader)?;
        check_saved(config, model, described.as_ref(), reader, &self.dir)
    }
}

/// The model that a run's settings describe, with the tokens, positions and classes of the saved one. None for a run
/// that began from a checkpoint, which decided its sizes.
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
        classes: saved.labels().len().max(1),
        ..Sizes::of(config, Some(reader))
    };
    check_image_size(config, sizes)?;
    let head = head_of(config.data.format.format().assumed_goal(config).as_ref());
    let mut model = models::from_scratch(config, sizes, head);
    set_architecture(config, &mut model)?;
    if !saved.labels().is_empty() {
        model.set_labels(saved.labels().to_vec());
    }
    set_layers(config, &mut model)?;
    Ok(Some(model))
}

/// Refuses a saved model that the run's settings do not describe. `described` is the model that they describe; none for
/// a run that began from a checkpoint.
///
/// # Errors
/// The reader of another model, settings of another model, and examples that are longer than the model's positions.
fn check_saved(config: &Config, model: &Model, described: Option<&Model>, reader: &Reader, dir: &Path) -> Result<()> {
    let whose = format!("the model in {}", dir.display());
    check_inputs(config, model, &whose)?;
    check_reader(reader, model, &whose)?;
    let remedy = match config.settings.origin("data.max_length") {
        Origin::Flag(_) => "set data.max_length to at most that",
        _ => "restore the run's config.toml",
    };
    check_length(config, model, &whose, remedy)?;
    check_words(config, model, described, &whose)?;
    let Some(described) = described else {
        return Ok(());
    };
    if described.quantization() != model.quantization() {
        return Err(Error::user(format!(
            "model.quantize, the keys beside it, train.qat_ranges and train.qat_start describe another quantization than that \
             of {whose}; restore the run's config.toml"
        )));
    }
    let shapes = |model: &Model| -> Vec<(String, Vec<usize>)> {
        let params = model.parameters().into_iter();
        params.map(|param| (param.name, param.shape)).collect()
    };
    let (wanted, found) = (shapes(described), shapes(model));
    if wanted == found {
        return Ok(());
    }
    let what = match wanted.iter().find(|param| !found.contains(param)) {
        Some((name, shape)) => format!("a model with {name} of shape {shape:?}"),
        None => "a smaller model".to_string(),
    };
    Err(Error::user(format!(
        "the settings under [model] describe {what}, unlike {whose}; restore the run's config.toml"
    )))
}

/// Refuses a saved model whose activation, attention, positions or loss differ from the run's settings. Without
/// `described`, only given keys count.
fn check_words(config: &Config, model: &Model, described: Option<&Model>, whose: &str) -> Result<()> {
    let of_model = |model: &Model| {
        let attention = model.attention();
        [
            model.activation().to_string(),
            attention.weighting.to_string(),
            attention.position.to_string(),
        ]
    };
    let given = &config.model;
    let given = [
        given.activation.map(|activation| activation.to_string()),
        given.attention.map(|attention| attention.to_string()),
        given.position.map(|position| position.to_string()),
    ];
    let wanted = described.map_or(given, |described| of_model(described).map(Some));
    let names = ["model.activation", "model.attention", "model.position"];
    let words = names.into_iter().zip(wanted).zip(of_model(model));
    let loss = (
        ("train.loss", Some(config.train.loss.to_string())),
        model.loss().to_string(),
    );
    for ((name, wanted), found) in words.chain([loss]) {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            return Err(Error::user(format!(
                "{name} = {wanted} is not that of {whose}, {found}; restore the run's config.toml"
            )));
        }
    }
    Ok(())
}
