//! `lessen predict`

use crate::say;
use clap::Args;
use lessen::device_named;
use lessen_run::Result;
use lessen_run::saved_run::{Prediction, SavedRun};
use serde_json::{Map, json};
use std::path::PathBuf;

/// Flags of `lessen predict`.
#[derive(Args)]
pub struct Predict {
    /// Folder of a run
    run_dir: PathBuf,
    /// The text; for tasks on two texts, both with a tab between
    #[arg(long, allow_hyphen_values = true)]
    text: String,
    /// Take the best model instead of the last one
    #[arg(long)]
    best: bool,
    /// Device to run on
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    device: String,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Predict {
    /// Asks the model; the exit code.
    pub fn run(self) -> Result<u8> {
        let backend = || device_named(&self.device);
        let prediction = SavedRun::open(&self.run_dir, self.best, &backend)?.predict(&self.text)?;
        let (text, object) = match prediction {
            Prediction::Class(label, shares) => {
                let share = shares
                    .iter()
                    .find(|(name, _)| *name == label)
                    .map_or(0.0, |(_, share)| *share);
                let all: Map<_, _> = shares.into_iter().map(|(name, share)| (name, json!(share))).collect();
                let object = json!({ "label": label, "probability": share, "probabilities": all });
                (format!("{label} ({:.1} %)", 100.0 * share), object)
            }
            Prediction::Score(score) => (format!("{score:.4}"), json!({ "score": score })),
            Prediction::Sum(sum) => (sum.clone(), json!({ "answer": sum })),
        };
        say(&if self.json {
            format!("{object}\n")
        } else {
            format!("{text}\n")
        });
        Ok(0)
    }
}
