//! Whether a checkpoint to start from goes with settings and data.

use super::inputs::{check_inputs, check_length, check_reader};
use crate::reader::{Reader, tokenizer_of};
use crate::recipe::config::Config;
use lessen_base::{Error, Result};
use lessen_data::Tokenizer;
use lessen_nn::Model;
use lessen_nn::checkpoint::ModelFolder;
use std::path::Path;

/// Refuses a path that is no folder with a model to start from, and no ONNX file, before it is read.
///
/// # Errors
/// A path without folder or file, an ONNX file for texts, the folder of a run instead of that of its model, a base
/// model beside a whole model, and new adapters beside adapters.
pub(super) fn check_init(config: &Config, folder: ModelFolder<'_>) -> Result<()> {
    let dir = folder.path();
    let (place, shown) = (config.settings.origin("model.init"), dir.display());
    if folder.is_onnx_file() {
        if !config.data.format.format().is_of_images() {
            return Err(Error::user(format!(
                "{place}: {shown} is an ONNX file, from which classifiers of images alone start; name the folder of a \
                 Hugging Face model"
            )));
        }
        return match &config.model.base {
            Some(base) => check_base(folder, base).map_err(|error| error.at(config.settings.origin("model.base"))),
            None => Ok(()),
        };
    }
    if !dir.is_dir() {
        let what = match dir
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("onnx"))
        {
            true => "file",
            false => "folder",
        };
        return Err(Error::user(format!(
            "{place}: there is no {what} {shown}; check the path"
        )));
    }
    let model = dir.join("model");
    let is_model = model.join("config.json").exists() || ModelFolder::from(&model).has_adapters();
    if !dir.join("config.json").exists() && !folder.has_adapters() && is_model {
        return Err(Error::user(format!(
            "{place}: {shown} is a run; start from its model, {}",
            model.display()
        )));
    }
    if folder.has_adapters() && config.lora.rank > 0 {
        return Err(Error::user(format!(
            "{} needs a checkpoint whose weights stay as they are, but {shown} has adapters; merge them first, with \
             `lessen export`, or leave it out",
            config.place("lora.rank")
        )));
    }
    match &config.model.base {
        Some(base) => check_base(folder, base).map_err(|error| error.at(config.settings.origin("model.base"))),
        None => Ok(()),
    }
}

/// Refuses a base model that does not go with a folder.
///
/// # Errors
/// A path without folder, and a folder that has no adapters.
pub fn check_base(adapters: ModelFolder<'_>, base: &Path) -> Result<()> {
    if !base.is_dir() {
        let base = base.display();
        return Err(Error::user(format!("there is no folder {base}; check the path")));
    }
    if !adapters.has_adapters() {
        return Err(Error::user(format!(
            "{} has a model of its own and no adapters; leave out the base model {}",
            adapters.path().display(),
            base.display()
        )));
    }
    Ok(())
}

/// Refuses a new model that does not go with data and settings. Without data there is no reader, and the vocabulary is
/// only assumed.
///
/// # Errors
/// A tokenizer of another model, examples that are longer than the model's positions, images of another size, and a
/// model that reads other data.
pub(super) fn check_new(config: &Config, model: &Model, reader: Option<&Reader>) -> Result<()> {
    let Some(dir) = &config.model.init else {
        return Ok(());
    };
    let whose = format!("the checkpoint {}", dir.display());
    check_inputs(config, model, &whose)?;
    if let Some(reader) = reader {
        check_reader(reader, model, &whose)?;
    }
    check_length(config, model, &whose, "set data.max_length to at most that")
}

/// The size of the vocabulary of a model that starts from a checkpoint. It is larger than the checkpoint's where tokens
/// were added to the checkpoint's own tokenizer. [`check_new`] refuses other tokenizers.
pub(super) fn vocabulary_for(config: &Config, model: &Model, tokenizer: Option<&Tokenizer>) -> usize {
    let knows = model.vocab_size();
    let (Some(folder), Some(tokenizer)) = (config.init(), tokenizer) else {
        return knows;
    };
    let grows = tokenizer.vocab_size() > knows
        && (tokenizer.is_extended_from(knows)
            || tokenizer_of(folder).is_ok_and(|own| is_longer(tokenizer, &own, knows)));
    if grows { tokenizer.vocab_size() } else { knows }
}

/// Whether a tokenizer extends the checkpoint's own one, which fits the model.
fn is_longer(tokenizer: &Tokenizer, own: &Tokenizer, knows: usize) -> bool {
    own.vocab_size() <= knows && tokenizer.extends(own)
}
