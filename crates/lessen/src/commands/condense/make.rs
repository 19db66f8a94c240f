//! `lessen condense RECIPE`: makes images.

use crate::commands::candidates;
use crate::commands::device_args::DeviceArgs;
use crate::commands::job_end::{Stopped, end};
use crate::commands::job_request::{budget, count, path, request, text};
use clap::Args;
use lessen_base::Result;
use lessen_base::word::Word;
use lessen_condense::Method;
use lessen_jobs::condensing::condense;
use lessen_jobs::job::{CONDENSATION, Request};
use std::path::PathBuf;

/// Flags of `lessen condense RECIPE`.
#[derive(Args)]
pub struct Make {
    /// Name of a built-in recipe for images, or a TOML file (paths in it are relative to its folder)
    #[arg(add = candidates::recipes(), required_unless_present = "resume")]
    recipe: Option<String>,
    /// File or folder of the data
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Synthetic images of each class [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    per_class: Option<u64>,
    /// Settings by name: gradients of each class (baseline), of several levels (m), with their magnitude (md), the
    /// network trained until it overfits (mdo) or by an adaptive schedule (mda); with siamese augmentation gradients
    /// (dsa), means of features (dm), ways of trained networks (mtt); or real images that are chosen (random, herding,
    /// k-center, forgetting) [default: mda]
    #[arg(long, value_name = "NAME", value_parser = Method::WORDS.to_vec())]
    method: Option<String>,
    /// Outer iterations, each with a new network [default: as many as fill five minutes]
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    iterations: Option<u64>,
    /// Most memory for the whole process, as of a container: a size such as 512M or 2GiB, a share such as 80% of the
    /// control group's limit or else of the machine's memory, or auto: that limit, or else what is available
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    budget: Option<String>,
    /// Seed of the images, the networks and all batches
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Another value for a key of the recipe, such as condense.distance=d1 (`lessen recipes --keys` lists them); may be
    /// repeated
    #[arg(long = "set", value_name = "KEY=VALUE", add = candidates::assignments())]
    set: Vec<String>,
    /// Folder for the images [default: runs/condensed-RECIPE-N]
    #[arg(long, value_name = "DIR", add = candidates::runs())]
    out: Option<PathBuf>,
    /// Resume the condensation in the folder from its checkpoint, with its own settings
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Make {
    /// Condenses; the exit code.
    pub fn run(self) -> Result<u8> {
        let report = condense(&self.request()?, &self.device.new_backend())?;
        let stopped = report.interrupted.then(|| Stopped {
            after: Some(format!("iteration {}", report.done)),
            command: "condense",
            out: &report.out,
        });
        end(self.json, (&report.to_json(), report.to_text()), stopped)
    }

    fn request(&self) -> Result<Request> {
        let flags = [
            path("--data", "data.path", self.data.as_ref())?,
            count("--per-class", "condense.per_class", self.per_class),
            text("--method", "condense.method", self.method.as_ref()),
            count("--iterations", "condense.iterations", self.iterations),
            count("--seed", "condense.seed", self.seed),
            budget(self.budget.as_ref())?,
        ];
        request(
            CONDENSATION,
            self.recipe.as_deref(),
            (self.out.as_ref(), self.resume),
            &flags,
            &self.set,
        )
    }
}
