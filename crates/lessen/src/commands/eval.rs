//! `lessen eval`

use crate::say;
use clap::Args;
use lessen::device_named;
use lessen_run::Result;
use lessen_run::saved_run::SavedRun;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Flags of `lessen eval`.
#[derive(Args)]
pub struct Eval {
    /// Folder of a run
    run_dir: PathBuf,
    /// Other data than the run's
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Split to score
    #[arg(long, value_name = "NAME", default_value = "dev")]
    split: String,
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

impl Eval {
    /// Evaluates; the exit code.
    pub fn run(self) -> Result<u8> {
        let backend = || device_named(&self.device);
        let run = SavedRun::open(&self.run_dir, self.best, &backend)?;
        let scores = run.evaluate(self.data.as_deref(), &self.split)?;
        let source = run.source().display().to_string();
        if self.json {
            let mut object = scores.to_json(&self.split);
            object.insert("split".into(), json!(self.split));
            object.insert("examples".into(), json!(scores.examples));
            object.insert("model".into(), json!(source));
            say(&format!("{}\n", Value::Object(object)));
        } else {
            say(&format!(
                "{source} on {} examples of {}: {}\n",
                scores.examples,
                self.split,
                scores.show()
            ));
        }
        Ok(0)
    }
}
