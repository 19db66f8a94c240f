//! `lessen search`

use crate::commands::candidates;
use crate::commands::device_args::DeviceArgs;
use crate::{say, tell};
use clap::Args;
use lessen_run::folder::names::{last_run, next_run};
use lessen_run::recipe::settings::Settings;
use lessen_run::recipe::value::SettingValue;
use lessen_run::searching::{Request, search};
use lessen_run::training::interrupt;
use lessen_run::{Error, Result, recipe};
use lessen_search::CostKind;
use lessen_train::parse_budget;
use std::path::PathBuf;

/// Flags of `lessen search`.
#[derive(Args)]
pub struct Search {
    /// Name of a built-in recipe for images, or a TOML file (paths in it are relative to its folder)
    #[arg(add = candidates::recipes(), required_unless_present = "resume")]
    recipe: Option<String>,
    /// File or folder of the data
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// What a network costs for an image [default: energy]
    #[arg(long, value_name = "NAME", value_parser = CostKind::WORDS.to_vec())]
    cost: Option<String>,
    /// Most that the network may cost, such as 1.2mJ, 3ms or 0.5MB [default: none, every cost counts]
    #[arg(long, value_name = "COST")]
    limit: Option<String>,
    /// Hardware: bf_e or bf_s (the published configurations of BitFusion), haq (bit-serial, no energy), or a TOML file
    /// of an accelerator like BitFusion [default: bf_e]
    #[arg(long, value_name = "NAME|FILE")]
    accelerator: Option<String>,
    /// Epochs of the search [default: 60]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    epochs: Option<u64>,
    /// Most memory for the whole process, as of a container: a size such as 512M or 2GiB, a share such as 80% of the
    /// control group's limit or else of the machine's memory, or auto: that limit, or else what is available
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    budget: Option<String>,
    /// Seed of weights, images and samples
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Another value for a key of the recipe, such as search.lambda=0.01 (`lessen recipes --keys` lists them); may be
    /// repeated
    #[arg(long = "set", value_name = "KEY=VALUE", add = candidates::assignments())]
    set: Vec<String>,
    /// Folder of the search [default: runs/search-RECIPE-N]
    #[arg(long, value_name = "DIR", add = candidates::runs())]
    out: Option<PathBuf>,
    /// Resume the search in the folder from its checkpoint, with its own settings
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Search {
    /// Searches; the exit code.
    pub fn run(self) -> Result<u8> {
        let report = search(&self.request()?, &|| self.device.open())?;
        if report.interrupted {
            let (out, done) = (report.out.display(), &report.numbers["epochs"]);
            tell(&format!(
                "stopped after epoch {done}; go on with `lessen search --resume --out {out}`"
            ));
            return Ok(interrupt::EXIT_CODE);
        }
        say(&if self.json {
            format!("{}\n", report.to_json())
        } else {
            report.to_text()
        })?;
        Ok(0)
    }

    fn request(&self) -> Result<Request> {
        let named = self.recipe.as_deref().map(recipe::load).transpose()?;
        let name = named
            .as_ref()
            .and_then(|settings| settings.text("run.recipe"))
            .map(str::to_string);
        let folder = |name: Option<&str>| format!("search-{}", name.unwrap_or("recipe"));
        if self.resume {
            let found = self.out.clone().or_else(|| last_run(&folder(name.as_deref())));
            let out = found.ok_or_else(|| {
                Error::user("there is no search of this recipe in runs/ to resume; name its folder with --out")
            })?;
            return Request::resume(out, name.as_deref(), |settings| self.apply(settings));
        }
        let mut settings = named.ok_or_else(|| Error::internal("a recipe is required"))?;
        let out = self.out.clone().unwrap_or_else(|| next_run(&folder(name.as_deref())));
        self.apply(&mut settings)?;
        Ok(Request::new(settings, out))
    }

    /// Puts the flags over the settings; `--set` goes over all others.
    fn apply(&self, settings: &mut Settings) -> Result<()> {
        let path = self.data.as_ref().map(|path| path.display().to_string());
        let budget = self.budget.as_deref().map(|size| Ok((parse_budget(size)?, size)));
        let budget = budget.transpose()?;
        let text = |text: &String| (SettingValue::Text(text.clone()), text.clone());
        let count = |count: u64| (SettingValue::Count(count), count.to_string());
        for (flag, key, given) in [
            ("--data", "data.path", path.as_ref().map(text)),
            ("--cost", "search.cost", self.cost.as_ref().map(text)),
            ("--limit", "search.limit", self.limit.as_ref().map(text)),
            (
                "--accelerator",
                "search.accelerator",
                self.accelerator.as_ref().map(text),
            ),
            ("--epochs", "search.epochs", self.epochs.map(count)),
            ("--seed", "search.seed", self.seed.map(count)),
            (
                "--budget",
                "run.budget",
                budget.map(|(bytes, size)| (SettingValue::Size(bytes as u64), size.to_string())),
            ),
        ] {
            if let Some((value, shown)) = given {
                settings.set_named(key, value, format!("{flag} {shown}"))?;
            }
        }
        self.set.iter().try_for_each(|assignment| settings.set_flag(assignment))
    }
}
