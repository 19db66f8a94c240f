//! A saved model as a Hugging Face folder of its own, in a dtype of choice.

use crate::folder::Which;
use crate::saved_run::model_folder;
use lessen_base::atomic::{unwritable, write_folder};
use lessen_base::{Error, Result};
use lessen_data::Tokenizer;
use lessen_nn::checkpoint::{self, WeightDtype};
use std::fs;
use std::path::{Path, PathBuf};

/// Writes a model of a run, or of a Hugging Face folder, with its tokenizer to a folder `out` that does not exist or is
/// empty. Weights are copied in blocks. Returns the folder that they come from.
///
/// # Errors
/// A folder without this model, a damaged one, an `out` that holds something or cannot be written to, and a weight that
/// the dtype does not reach. Nothing is written then.
pub fn export(root: &Path, which: Which, out: &Path, dtype: WeightDtype) -> Result<PathBuf> {
    let source = model_folder(root, which)?;
    let shown = out.display();
    let is_empty = |out: &Path| fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
    if out.exists() && !is_empty(out) {
        let what = if out.is_dir() { "is not empty" } else { "is a file" };
        return Err(Error::user(format!(
            "{shown} {what}; name a folder that does not exist yet"
        )));
    }
    let tokenizer = Tokenizer::from_dir(&source)?;
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent).map_err(|error| unwritable(out, &error))?;
    }
    write_folder(out, |aside| {
        checkpoint::convert(&source, aside, dtype)?;
        tokenizer.save(aside)
    })?;
    Ok(source)
}
