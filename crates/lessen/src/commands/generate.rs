//! `lessen generate`

use crate::say;
use clap::Args;
use lessen::device_named;
use lessen_run::saved_run::SavedRun;
use lessen_run::{Error, Result};
use lessen_train::Sampling;
use serde_json::json;
use std::path::PathBuf;

/// Flags of `lessen generate`.
#[derive(Args)]
pub struct Generate {
    /// Folder of a run
    run_dir: PathBuf,
    /// The text to continue
    #[arg(long, allow_hyphen_values = true)]
    prompt: String,
    /// Tokens to add
    #[arg(long, value_name = "N", default_value_t = 200, allow_negative_numbers = true)]
    tokens: usize,
    /// Below 1 is more predictable, above is wilder; 0 always takes the most likely token
    #[arg(long, value_name = "T", default_value_t = 0.8, allow_hyphen_values = true)]
    temperature: f64,
    /// Consider only the K most likely tokens
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    top_k: Option<usize>,
    /// Decides what is drawn
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
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

impl Generate {
    /// Continues the prompt; the exit code.
    pub fn run(self) -> Result<u8> {
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return Err(Error::user(format!(
                "--temperature {} makes no sense; choose a number from 0, such as 0.8",
                self.temperature
            )));
        }
        if self.top_k == Some(0) {
            return Err(Error::user(
                "--top-k 0 leaves no token; choose at least 1, or leave it out",
            ));
        }
        let Generate {
            tokens,
            temperature,
            top_k,
            seed,
            ..
        } = self;
        let sampling = Sampling {
            tokens,
            temperature,
            top_k,
            seed,
        };
        let backend = || device_named(&self.device);
        let run = SavedRun::open(&self.run_dir, self.best, &backend)?;
        let added = run.generate(&self.prompt, &sampling)?;
        if self.json {
            say(&format!("{}\n", json!({ "prompt": self.prompt, "text": added })));
        } else {
            say(&format!("{}{added}\n", self.prompt));
        }
        Ok(0)
    }
}
