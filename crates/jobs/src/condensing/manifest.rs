//! `manifest.json` of a folder with condensed images: what they were made of and how.

use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use lessen_data::images::condensed::Origin;
use lessen_task::input_files::InputFiles;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What condensed images were made of and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of Lessen that wrote it.
    pub lessen: String,
    /// The name of the recipe.
    pub recipe: String,
    /// Outer iterations that are done.
    pub done: usize,
    /// Outer iterations of the whole condensation; none before the number is settled, where a time is to be filled.
    pub iterations: Option<usize>,
    /// The settings as they were followed, defaults among them.
    pub settings: BTreeMap<String, String>,
    /// The learning rate that was learned with the images, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned_rate: Option<f32>,
    /// The data set that was condensed.
    pub data: Origin,
    /// The files that its settings name; none in a manifest of an earlier version.
    #[serde(default, skip_serializing_if = "InputFiles::is_empty")]
    pub(crate) inputs: InputFiles,
    /// Height, width and channels of an image.
    pub shape: [usize; 3],
    /// The names of the classes in the order of their numbers.
    pub classes: Vec<String>,
}

impl Manifest {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, or is none.
    pub(super) fn read(path: &Path) -> Result<Manifest> {
        let wrong = |what: String| {
            Error::user(format!(
                "{} is no manifest of condensed images ({what}); restore the file, or condense anew",
                path.display()
            ))
        };
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
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
