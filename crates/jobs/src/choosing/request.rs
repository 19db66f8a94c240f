//! A choice that is asked for.

use lessen_base::Result;
use lessen_task::recipe::settings::Settings;
use std::path::PathBuf;

/// Which candidate settings are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The linear model: settings of data, seed and memory count.
    Linear,
    /// The network: all settings count.
    Network,
}

impl Part {
    /// Whether flags for a key count for it.
    pub fn takes(self, key: &str) -> bool {
        let is_shared = ["data.", "image.", "run."]
            .iter()
            .any(|section| key.starts_with(section));
        self == Part::Network || is_shared || key == "train.seed" || key == "train.best"
    }

    pub(super) fn of(candidate: &str) -> Part {
        match candidate {
            LINEAR => Part::Linear,
            _ => Part::Network,
        }
    }
}

/// The name of the linear candidate.
pub(super) const LINEAR: &str = "linear";

/// The name of the candidate that is a network.
pub(super) const NETWORK: &str = "network";

/// A choice that is asked for.
pub struct ChoiceRequest<'a> {
    /// File or folder of the data, or a pattern for files.
    pub data: PathBuf,
    /// Folder of the result.
    pub out: PathBuf,
    /// Minutes that it may take.
    pub minutes: f64,
    /// The folder to start from, if one is named.
    pub init: Option<PathBuf>,
    /// Whether a choice in the folder goes on.
    pub resumes: bool,
    /// Puts flags over the settings of a candidate.
    pub over: &'a dyn Fn(&mut Settings, Part) -> Result<()>,
}
