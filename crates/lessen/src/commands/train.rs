//! `lessen train`

use super::recipe_args::RecipeArgs;
use crate::say;
use clap::Args;
use lessen_train::folder::Folder;
use lessen_train::run::{Request, read_config, train};
use lessen_train::run_names::{last_run, next_run};
use lessen_train::{Error, Result, interrupt, recipe};
use std::path::PathBuf;

/// The recipe that needs nothing.
const DEFAULT: &str = "adder";

/// Flags of `lessen train`.
#[derive(Args)]
pub struct Train {
    /// Name of a built-in recipe, or a TOML file [default: adder]
    recipe: Option<String>,
    #[command(flatten)]
    over: RecipeArgs,
    /// Folder for all that comes out [default: runs/RECIPE-N]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the run in the folder, from its newest checkpoint
    #[arg(long)]
    resume: bool,
    /// Steps to train
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Train {
    /// Trains; the exit code.
    pub fn run(self) -> Result<u8> {
        let request = self.request()?;
        interrupt::listen()?;
        let report = train(&request)?;
        if self.json {
            say(&format!("{}\n", report.to_json()));
        } else {
            say(&report.to_text());
        }
        if report.interrupted {
            let out = report.out.display();
            eprintln!(
                "stopped after step {}; go on with `lessen train --resume --out {out}`",
                report.steps
            );
            return Ok(interrupt::EXIT_CODE);
        }
        Ok(0)
    }

    fn request(&self) -> Result<Request> {
        let name = self.recipe.as_deref().unwrap_or(DEFAULT);
        let budget = self.over.budget()?;
        // A continued run needs no recipe: its folder has all settings.
        let (recipe, mut settings, out) = match (self.resume, &self.recipe) {
            (true, None) => {
                let out = self.resumed_folder(name)?;
                let (recipe, settings) = read_config(&Folder::open(&out)?)?;
                (recipe, settings, out)
            }
            (resume, _) => {
                let (recipe, settings) = recipe::load(name)?;
                let out = match (&self.out, resume) {
                    (Some(out), _) => out.clone(),
                    (None, true) => self.resumed_folder(&recipe)?,
                    (None, false) => next_run(&recipe),
                };
                (recipe, settings, out)
            }
        };
        self.over.apply(&mut settings, self.steps)?;
        Ok(Request {
            recipe,
            settings,
            out,
            resume: self.resume,
            budget,
        })
    }

    fn resumed_folder(&self, recipe: &str) -> Result<PathBuf> {
        let found = self.out.clone().or_else(|| last_run(recipe));
        found.ok_or_else(|| {
            Error::user(format!(
                "there is no run of {recipe} in runs/ to resume; name its folder with --out"
            ))
        })
    }
}
