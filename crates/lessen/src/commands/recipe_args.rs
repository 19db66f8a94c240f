//! The flags of `train` and `plan` that go over a recipe's settings.

use super::candidates;
use clap::Args;
use lessen_base::Result;
use lessen_jobs::check_trains;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::SettingValue;
use lessen_train::parse_budget;
use std::path::PathBuf;

/// Flags over a recipe.
#[derive(Args)]
pub struct RecipeArgs {
    /// File or folder of the data
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Hugging Face folder to start from, or an ONNX file of a classifier of images
    #[arg(long, value_name = "PATH")]
    init: Option<PathBuf>,
    /// Folder of the model that adapters in the folder to start from belong to (default: the one that they name)
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// Most memory for the whole process, as of a container: a size such as 512M or 2GiB, a share such as 80% of the
    /// control group's limit or else of the machine's memory, or auto: that limit, or else what is available
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    budget: Option<String>,
    /// Greatest error of values that the memory planner may invert or round to save memory [default: 0, exact values
    /// only; 1e-6 without a number]
    #[arg(
        long, value_name = "ERROR", num_args = 0..=1, require_equals = true, default_missing_value = "1e-6",
        allow_negative_numbers = true
    )]
    allow_error: Option<f64>,
    /// Cost model of the memory planner: analytic, from the rates of a usual device, or measured, from times of the
    /// operations on this device, taken once in a few seconds; results are the same (default: measured with --budget or
    /// --sweep)
    #[arg(long, value_name = "COST", value_parser = ["analytic", "measured"])]
    cost: Option<String>,
    /// Seed of initial parameters, order of the data and dropout
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Another value for a key of the recipe (`lessen recipes --keys` lists them), or phase.NAME.KEY=VALUE for one of
    /// its training phases; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", add = candidates::assignments())]
    set: Vec<String>,
}

impl RecipeArgs {
    /// The files and folders that are read.
    pub fn read(&self) -> impl Iterator<Item = PathBuf> + '_ {
        [&self.data, &self.init, &self.base].into_iter().flatten().cloned()
    }

    /// File or folder of the data.
    pub fn data(&self) -> Option<&PathBuf> {
        self.data.as_ref()
    }

    /// The folder to start from.
    pub fn init(&self) -> Option<&PathBuf> {
        self.init.as_ref()
    }

    /// Puts the flags over the settings; `--set` goes over all others.
    pub fn apply(&self, settings: &mut Settings, steps: Option<u64>) -> Result<()> {
        self.apply_where(settings, steps, &|_| true)
    }

    /// The same with the flags for some keys alone.
    pub fn apply_where(&self, settings: &mut Settings, steps: Option<u64>, takes: &dyn Fn(&str) -> bool) -> Result<()> {
        for (flag, key, path) in [
            ("--data", "data.path", &self.data),
            ("--init", "model.init", &self.init),
            ("--base", "model.base", &self.base),
        ] {
            if let Some(path) = path.as_ref().filter(|_| takes(key)) {
                settings.set_named(key, SettingValue::of_path(path)?, format!("{flag} {}", path.display()))?;
            }
        }
        if let Some(steps) = steps.filter(|_| takes("train.steps")) {
            settings.set_named("train.steps", SettingValue::Count(steps), format!("--steps {steps}"))?;
        }
        if let Some(seed) = self.seed.filter(|_| takes("train.seed")) {
            settings.set_named("train.seed", SettingValue::Count(seed), format!("--seed {seed}"))?;
        }
        if let Some(size) = self.budget.as_ref().filter(|_| takes("run.budget")) {
            let bytes = SettingValue::Size(parse_budget(size)? as u64);
            settings.set_named("run.budget", bytes, format!("--budget {size}"))?;
        }
        if let Some(error) = self.allow_error.filter(|_| takes("train.allow_error")) {
            let value = SettingValue::Number(error);
            settings.set_named("train.allow_error", value, format!("--allow-error={error}"))?;
        }
        if let Some(cost) = self.cost.as_ref().filter(|_| takes("run.cost")) {
            settings.set_named("run.cost", SettingValue::Text(cost.clone()), format!("--cost {cost}"))?;
        }
        let key = |assignment: &String| assignment.split('=').next().unwrap_or_default().trim().to_string();
        self.set
            .iter()
            .filter(|assignment| takes(&key(assignment)))
            .try_for_each(|assignment| settings.set_flag(assignment))?;
        check_trains(settings)
    }
}
