//! `lessen plan`

use super::recipe_args::RecipeArgs;
use crate::say;
use clap::Args;
use lessen_train::config::Config;
use lessen_train::{Outlook, Result, recipe};

/// Flags of `lessen plan`.
#[derive(Args)]
pub struct Plan {
    /// Name of a built-in recipe, or a TOML file (paths in it are relative to its folder)
    recipe: String,
    #[command(flatten)]
    over: RecipeArgs,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Plan {
    /// Plans; the exit code.
    pub fn run(self) -> Result<u8> {
        let (name, mut settings) = recipe::load(&self.recipe)?;
        self.over.apply(&mut settings, None)?;
        let outlook = Outlook::new(Config::new(&name, settings)?, self.over.budget()?)?;
        say(&if self.json {
            format!("{}\n", outlook.to_json())
        } else {
            outlook.to_text()
        });
        Ok(0)
    }
}
