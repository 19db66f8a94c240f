//! The accuracies of networks that learned from condensed images: the file `evaluation.json` in the images' folder.

use super::results::read_json;
use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// The name of the file.
pub(super) const JUDGEMENTS: &str = "evaluation.json";

/// The accuracies of all evaluations of a run's images.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Judgements {
    /// Settings of the networks' trainings.
    pub settings: BTreeMap<String, String>,
    pub stages: Vec<Stage>,
    /// Seconds of all evaluations.
    pub seconds: f64,
}

/// The accuracies of networks that learned from the images after some iterations.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stage {
    pub iterations: usize,
    /// The accuracy of each network, by the name of the accuracies; `None` where the network diverged.
    pub accuracies: BTreeMap<String, Vec<Option<f64>>>,
}

impl Judgements {
    /// Reads the file of a folder; no accuracies where there is no file.
    ///
    /// # Errors
    /// A file that is no file of accuracies.
    pub(super) fn read(root: &Path) -> Result<Judgements> {
        let path = root.join(JUDGEMENTS);
        if !path.is_file() {
            return Ok(Judgements::default());
        }
        serde_json::from_value(read_json(&path)?).map_err(|error| {
            let shown = path.display();
            Error::user(format!(
                "{shown} is no file of accuracies ({error}); remove it, so that it is written anew"
            ))
        })
    }

    /// Writes the file into a folder.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write(&self, root: &Path) -> Result<()> {
        let text = json!(self);
        write_file(&root.join(JUDGEMENTS), format!("{text}\n").as_bytes())
    }

    /// Whether the images were judged after this number of iterations.
    pub(super) fn has(&self, iterations: usize) -> bool {
        self.stages.iter().any(|stage| stage.iterations == iterations)
    }
}
