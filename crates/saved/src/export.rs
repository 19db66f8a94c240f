//! A saved model as a Hugging Face folder of its own, in a dtype of choice.

use crate::saved_run::{AdapterOptions, model_dir};
use lessen_base::atomic::{check_link, unwritable, write_folder};
use lessen_base::{Error, Result};
use lessen_nn::Model;
use lessen_nn::checkpoint::{self, WeightDtype};
use lessen_task::folder::WhichModel;
use lessen_task::generation_config::GenerationConfig;
use lessen_task::reader::Reader;
use std::fs;
use std::path::{Path, PathBuf};

/// How a model is written.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// The dtype of its weights.
    pub dtype: WeightDtype,
    /// Where its own adapters belong, and which others are added to it.
    pub adapters: AdapterOptions,
    /// Whether its own adapters are written alone, and not added to the weights of the base model.
    pub adapters_alone: bool,
}

/// Writes a model of a run, or of a Hugging Face folder, with its tokenizer or preprocessing, to a folder `out` that
/// does not exist or is empty. Weights are copied in blocks. Returns the folder that they come from.
///
/// # Errors
/// A folder without this model, a damaged one, adapters whose base model is not there or that do not go with the model,
/// an `out` that holds something or cannot be written to, and a weight that the dtype does not reach. Nothing is
/// written then.
pub fn export(root: &Path, which: WhichModel, out: &Path, form: ExportOptions) -> Result<PathBuf> {
    let dir = model_dir(root, which)?;
    let source = form.adapters.of(&dir)?;
    must_be_empty(out)?;
    let model = Model::from_dir(source)?;
    let reader = Reader::of(source, &model)?;
    let generation = match model.decoder() {
        Some(_) => Some(GenerationConfig::read(source)?.unwrap_or_else(|| GenerationConfig::of(&model))),
        None => None,
    };
    make_parent(out)?;
    write_folder(out, |aside| {
        if form.adapters_alone {
            checkpoint::copy_adapters(source, aside, form.dtype)?
        } else {
            checkpoint::convert(source, aside, form.dtype)?
        }
        model.save_files(aside)?;
        reader.save(aside, None)?;
        generation.map_or(Ok(()), |generation| generation.save(aside))
    })?;
    Ok(dir)
}

/// Makes the folder that a new file or folder is in.
///
/// # Errors
/// A place that cannot be written to.
pub(crate) fn make_parent(out: &Path) -> Result<()> {
    match out.parent() {
        Some(parent) => fs::create_dir_all(parent).map_err(|error| unwritable(out, &error)),
        None => Ok(()),
    }
}

/// Checks that a folder to write does not exist, or is empty.
///
/// # Errors
/// A file, or a folder that holds something.
pub(crate) fn must_be_empty(out: &Path) -> Result<()> {
    check_link(out)?;
    let is_empty = |out: &Path| fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
    if out.exists() && !is_empty(out) {
        let what = if out.is_dir() { "is not empty" } else { "is a file" };
        return Err(Error::user(format!(
            "{} {what}; name a folder that does not exist yet",
            out.display()
        )));
    }
    Ok(())
}
