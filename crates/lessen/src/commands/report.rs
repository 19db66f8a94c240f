//! `lessen report`

use super::candidates;
use super::output_place::check_place;
use crate::{say, tell};
use clap::Args;
use lessen_base::Result;
use lessen_jobs::report::Page;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The name of the page.
const PAGE: &str = "report.html";

/// Flags of `lessen report`.
#[derive(Args)]
pub struct Report {
    /// Folders of runs, of condensed images, of searches or of experiments
    #[arg(required = true, add = candidates::runs())]
    run: Vec<PathBuf>,
    /// File for the page [default: report.html, in the folder of the run where it is a single one]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Report {
    /// Writes the page; the exit code.
    pub fn run(self) -> Result<u8> {
        let out = self.out.clone().unwrap_or_else(|| match &self.run[..] {
            [run] => run.join(PAGE),
            _ => Path::new(PAGE).to_path_buf(),
        });
        let page = Page::of(&self.run)?;
        check_place(&out, &[], &self.run)?;
        page.write(&out)?;
        let shown = out.display().to_string();
        if self.json {
            let object = json!({ "page": shown, "runs": page.runs(), "problems": page.problems() });
            say(&format!("{object}\n"))?;
        } else {
            page.problems()
                .iter()
                .for_each(|problem| tell(&format!("note: {problem}")));
            say(&format!("written to {shown}\n"))?;
        }
        Ok(0)
    }
}
