//! `manifest.json` of a job's folder: the data that the job reads, and how far it has come.

use super::JobKind;
use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use lessen_data::images::condensed::TrainingImages;
use lessen_task::input_files::InputFiles;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The data that a job reads, and how far it has come; `T` is what only a job of its kind has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest<T> {
    /// The version of Lessen that wrote it.
    pub lessen: String,
    /// The name of the recipe.
    pub recipe: String,
    /// Iterations or epochs that are done, and tests of bits after epochs.
    pub done: usize,
    /// What only a job of its kind has.
    #[serde(flatten)]
    pub own: T,
    /// The training images.
    pub data: TrainingImages,
    /// The files that its settings name; none in a manifest of an earlier version.
    #[serde(default, skip_serializing_if = "InputFiles::is_empty")]
    pub(crate) inputs: InputFiles,
    /// Height, width and channels of an image.
    pub shape: [usize; 3],
    /// The names of the classes in the order of their numbers.
    pub classes: Vec<String>,
}

impl<T: Serialize + DeserializeOwned> Manifest<T> {
    /// Reads the file of a job of this kind.
    ///
    /// # Errors
    /// A file that cannot be read, or is none.
    pub(crate) fn read(kind: JobKind, path: &Path) -> Result<Manifest<T>> {
        let wrong = |what: String| {
            Error::user(format!(
                "{} is no manifest of {} ({what}); restore the file, or {} anew",
                path.display(),
                kind.of,
                kind.section
            ))
        };
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
    }

    /// Writes a file atomically.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self);
        let text = text.map_err(|error| Error::internal(format!("the manifest cannot be written ({error})")))?;
        write_file(path, format!("{text}\n").as_bytes())
    }
}
