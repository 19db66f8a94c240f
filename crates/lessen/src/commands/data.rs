//! `lessen data`

use crate::say;
use clap::Args;
use lessen_base::Result;
use lessen_jobs::choosing::{LookOptions, look};
use std::path::PathBuf;

/// Flags of `lessen data`.
#[derive(Args)]
pub struct Data {
    /// File or folder of the data, or a pattern for files such as 'train-*.csv'
    path: PathBuf,
    /// Column of the texts [default: that of a usual name, or the one with the longest texts]
    #[arg(long, value_name = "NAME")]
    text: Option<String>,
    /// Column of what is learned [default: that of a usual name, or the last one with few values]
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Data {
    /// Looks at the data; the exit code.
    pub fn run(self) -> Result<u8> {
        let options = LookOptions {
            text: self.text,
            label: self.label,
            ..LookOptions::default()
        };
        let found = look(&self.path, &options)?;
        say(&if self.json {
            format!("{}\n", found.to_json())
        } else {
            found.to_text()
        })?;
        Ok(0)
    }
}
