//! `lessen search`

use crate::commands::candidates;
use crate::commands::device_args::DeviceArgs;
use crate::commands::job_end::{Stopped, end};
use crate::commands::job_request::{budget, count, path, request, text};
use clap::Args;
use lessen_base::Result;
use lessen_base::word::Word;
use lessen_jobs::job::{Request, SEARCH};
use lessen_jobs::searching::search;
use lessen_search::CostKind;
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
        let report = search(&self.request()?, &self.device.new_backend())?;
        let stopped = report.interrupted.clone().map(|reached| Stopped {
            after: Some(reached),
            command: "search",
            out: &report.out,
        });
        end(self.json, (&report.to_json(), report.to_text()), stopped)
    }

    fn request(&self) -> Result<Request> {
        let flags = [
            path("--data", "data.path", self.data.as_ref())?,
            text("--cost", "search.cost", self.cost.as_ref()),
            text("--limit", "search.limit", self.limit.as_ref()),
            text("--accelerator", "search.accelerator", self.accelerator.as_ref()),
            count("--epochs", "search.epochs", self.epochs),
            count("--seed", "search.seed", self.seed),
            budget(self.budget.as_ref())?,
        ];
        request(
            SEARCH,
            self.recipe.as_deref(),
            (self.out.as_ref(), self.resume),
            &flags,
            &self.set,
        )
    }
}
