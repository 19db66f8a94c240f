//! `lessen train`

use super::recipe_args::RecipeArgs;
use crate::{say, tell};
use clap::Args;
use lessen_train::folder::Folder;
use lessen_train::run::{Request, read_config, train};
use lessen_train::run_names::{last_run, next_run};
use lessen_train::settings::Settings;
use lessen_train::{Error, Result, interrupt, recipe};
use std::path::PathBuf;

/// The recipe that needs nothing.
const DEFAULT: &str = "adder";

/// Flags of `lessen train`.
#[derive(Args)]
pub struct Train {
    /// Name of a built-in recipe, or a TOML file (paths in it are relative to its folder) [default: adder]
    recipe: Option<String>,
    #[command(flatten)]
    over: RecipeArgs,
    /// Folder for all that comes out [default: runs/RECIPE-N]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the run in the folder, from its newest checkpoint and with its settings
    #[arg(long)]
    resume: bool,
    /// Steps to train
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    steps: Option<u64>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Train {
    /// Trains; the exit code.
    pub fn run(self) -> Result<u8> {
        let request = self.request()?;
        let report = train(&request)?;
        if self.json {
            say(&format!("{}\n", report.to_json()));
        } else {
            say(&report.to_text());
        }
        if report.interrupted {
            let out = report.out.display();
            tell(&format!(
                "stopped after step {}; go on with `lessen train --resume --out {out}`",
                report.steps
            ));
            return Ok(interrupt::EXIT_CODE);
        }
        Ok(0)
    }

    fn request(&self) -> Result<Request> {
        let budget = self.over.budget()?;
        let (recipe, mut settings, out) = if self.resume {
            self.resumed()?
        } else {
            let (recipe, settings) = recipe::load(self.recipe.as_deref().unwrap_or(DEFAULT))?;
            let out = self.out.clone().unwrap_or_else(|| next_run(&recipe));
            (recipe, settings, out)
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

    /// Recipe, settings and folder of the run to go on with. The settings are those of the folder also where the
    /// recipe is named again: flags that the run began with need not be repeated.
    fn resumed(&self) -> Result<(String, Settings, PathBuf)> {
        let named = match &self.recipe {
            Some(recipe) => Some(recipe::load(recipe)?.0),
            None => None,
        };
        let out = self.resumed_folder(named.as_deref().unwrap_or(DEFAULT))?;
        let written = read_config(&Folder::open(&out)?)?;
        match named {
            Some(named) if named != written.recipe => Err(Error::user(format!(
                "the run {} is of the recipe {}, not {named}; leave the recipe out, or name another folder with --out",
                out.display(),
                written.recipe
            ))),
            _ => Ok((written.recipe, written.settings, out)),
        }
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
