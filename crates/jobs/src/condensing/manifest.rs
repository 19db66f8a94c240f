//! What the manifest of condensed images tells beside that of any job: how they were made.

use crate::job;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `manifest.json` of a folder with condensed images.
pub type Manifest = job::Manifest<Condensed>;

/// How condensed images were made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condensed {
    /// Outer iterations of the whole condensation; none before the number is settled, where a time is to be filled.
    pub iterations: Option<usize>,
    /// The settings as they were followed, defaults among them.
    pub settings: BTreeMap<String, String>,
    /// The learning rate that was learned with the images, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned_rate: Option<f32>,
}
