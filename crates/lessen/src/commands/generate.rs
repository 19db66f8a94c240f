//! `lessen generate`

use crate::say;
use clap::Args;
use lessen::device_named;
use lessen_run::continuation::Continuation;
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
            ..Sampling::default()
        };
        sampling
            .check()
            .map_err(|error| Error::user(format!("--{}", error.message())))?;
        let backend = || device_named(&self.device);
        let run = SavedRun::open(&self.run_dir, self.best, &backend)?;
        let (prompts, how) = ([self.prompt.clone()], Continuation::new(sampling));
        let added = run.generate(&prompts, &how, &mut |_, _| Ok(()))?.concat();
        if self.json {
            say(&format!("{}\n", json!({ "prompt": self.prompt, "text": added })));
        } else {
            say(&format!("{}{added}\n", self.prompt));
        }
        Ok(0)
    }
}
