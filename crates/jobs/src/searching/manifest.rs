//! `manifest.json` of a search: the data that it reads, and how far it has come.

use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use lessen_data::images::condensed::Origin;
use lessen_task::input_files::InputFiles;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// What a search reads, and how far it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The version of Lessen that wrote it.
    pub lessen: String,
    /// The name of the recipe.
    pub recipe: String,
    /// Epochs that are done, and tests of bits after them.
    pub done: usize,
    /// The training images.
    pub data: Origin,
    /// The files that its settings name; none in a manifest of an earlier version.
    #[serde(default, skip_serializing_if = "InputFiles::is_empty")]
    pub inputs: InputFiles,
    /// Height, width and channels of an image.
    pub shape: [usize; 3],
    /// The names of the classes in the order of their numbers.
    pub classes: Vec<String>,
}

impl Manifest {
    /// Reads a file; none where there is no such file, as of a process that was killed at once.
    ///
    /// # Errors
    /// A file that cannot be read, or is none.
    pub(super) fn read(path: &Path) -> Result<Option<Manifest>> {
        if !path.is_file() {
            return Ok(None);
        }
        let wrong = |what: String| {
            Error::user(format!(
                "{} is no manifest of a search ({what}); restore the file, or search anew",
                path.display()
            ))
        };
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| wrong(error.to_string()))
    }

    /// Writes a file atomically.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self);
        let text = text.map_err(|error| Error::internal(format!("the manifest cannot be written ({error})")))?;
        write_file(path, format!("{text}\n").as_bytes())
    }
}
