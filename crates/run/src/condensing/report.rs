//! What a condensation says at its end.

use serde_json::{Value, json};
use std::path::PathBuf;

/// What a condensation says at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Its folder.
    pub out: PathBuf,
    /// Outer iterations that are done.
    pub done: usize,
    /// Whether Ctrl-C stopped it.
    pub interrupted: bool,
}

impl Report {
    /// One JSON object.
    pub fn to_json(&self) -> Value {
        json!({ "folder": self.out.display().to_string(), "iterations": self.done, "interrupted": self.interrupted })
    }

    /// Some lines of text.
    pub fn to_text(&self) -> String {
        format!("{} iterations, in {}\n", self.done, self.out.display())
    }
}
