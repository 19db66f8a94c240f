//! `lessen experiment`

use super::candidates;
use super::device_args::DeviceArgs;
use super::output_place::check_place;
use crate::terminal::INTERRUPTED;
use crate::{say, tell};
use clap::Args;
use lessen_base::{Error, Result};
use lessen_jobs::experiment::{self, Options};
use lessen_task::recipe::settings::Settings;
use std::path::{Path, PathBuf};

/// Flags of `lessen experiment`.
#[derive(Args)]
pub struct Experiment {
    /// TOML file of the experiment (`docs/experiments.md` describes its keys)
    file: PathBuf,
    /// Folder for the runs; finished runs in it are skipped, unfinished ones resumed [default: runs/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// File for the page of results, instead of the one that the experiment names
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Do the runs of this point alone, by its name; may be repeated. The page has what other points have left
    #[arg(long, value_name = "POINT")]
    only: Vec<String>,
    /// Another value for a key in the recipe of every run, or for one of the table [evaluation] or [training], such as
    /// evaluation.epochs=100 or training.train.epochs=10; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", add = candidates::assignments())]
    set: Vec<String>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Experiment {
    /// Trains the runs that are left; the exit code.
    pub fn run(self) -> Result<u8> {
        let name = self.file.file_stem().unwrap_or_default();
        if name.is_empty() {
            let shown = self.file.display();
            return Err(Error::user(format!(
                "'{shown}' is no file; name the TOML file of an experiment"
            )));
        }
        let mut experiment = experiment::Experiment::load(&self.file)?;
        let mut of_runs = Vec::new();
        for set in &self.set {
            if !experiment.set_table(set)? {
                of_runs.push(set);
            }
        }
        let flags: String = self.set.iter().map(|set| format!(" --set {set}")).collect();
        let change = |settings: &mut Settings| of_runs.iter().try_for_each(|set| settings.set_flag(set));
        if let Some(page) = &self.page {
            check_place(page, std::slice::from_ref(&self.file), &[])?;
        }
        let options = Options {
            out: self.out.clone().unwrap_or_else(|| Path::new("runs").join(name)),
            page: self.page.clone(),
            only: self.only.clone(),
            change: &change,
            command: format!("lessen experiment {}{flags}", self.file.display()),
        };
        let finished = experiment.run(&options, &self.device.new_backend())?;
        if self.json {
            say(&format!("{}\n", finished.to_json()))?;
        } else if !finished.interrupted {
            say(finished.to_text())?;
        }
        if finished.interrupted {
            tell(finished.to_text().trim_end());
            return Ok(INTERRUPTED);
        }
        Ok(0)
    }
}
