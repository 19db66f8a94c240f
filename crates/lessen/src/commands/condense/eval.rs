//! `lessen condense eval`: how good condensed images are.

use crate::commands::candidates;
use crate::commands::device_args::DeviceArgs;
use crate::say;
use clap::Args;
use lessen_base::{Error, Result};
use lessen_compile::Precision;
use lessen_condense::Augmentation;
use lessen_jobs::condensing::{EvaluationRequest, evaluate_condensed};
use lessen_nn::models::vision::Network;
use lessen_train::parse_budget;
use std::path::PathBuf;

/// Flags of `lessen condense eval`.
#[derive(Args)]
pub struct Eval {
    /// Folders of condensed images; several are sets of one condensation that differ in their seed
    #[arg(required = true, value_name = "FOLDER", add = candidates::runs())]
    folders: Vec<PathBuf>,
    /// Networks that are trained on each set, each from its own initial values
    #[arg(long, value_name = "N", default_value_t = 10)]
    networks: usize,
    /// Networks that learn, by name; several with commas [default: that of the condensation]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    network: Vec<String>,
    /// Data whose test images score the networks [default: that of the condensation]
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Epochs over the condensed images [default: 300, and 1000 with augmentation]
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Learning rate of the first half of the epochs; the second half has a tenth of it [default: the one that was
    /// learned with the images (mtt), else 0.01]
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    learning_rate: Option<f64>,
    /// Augmentation in training: none, crop_scale_rotate, crop_noise, or operations of siamese augmentation such as
    /// color_crop_rotate [default: that of the condensation; else crop_noise for networks with batch normalization,
    /// crop_scale_rotate for the recipe mnist, none elsewhere (also none for published results on Fashion-MNIST)]
    #[arg(long, value_name = "NAME")]
    augment: Option<Augmentation>,
    /// Dtype that products and convolutions read
    #[arg(long, value_name = "DTYPE", default_value = "f32", value_parser = ["f32", "bf16"])]
    precision: String,
    /// Train one network on the whole training split too, for so many epochs, and say the accuracy relative to it
    #[arg(long, value_name = "EPOCHS")]
    whole: Option<usize>,
    /// Most memory for the whole process, as of a container: a size such as 512M or 2GiB, a share such as 80% of the
    /// control group's limit or else of the machine's memory, or auto: that limit, or else what is available
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    budget: Option<String>,
    /// Seed of the networks, of the order of images and of augmentation
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Eval {
    /// Evaluates; the exit code.
    pub fn run(self) -> Result<u8> {
        let networks = self.network.iter().map(|name| {
            Network::of(name).ok_or_else(|| {
                Error::user(format!(
                    "--network {name}: there is no such network; choose of {}",
                    Network::NAMES.join(", ")
                ))
            })
        });
        let request = EvaluationRequest {
            networks: networks.collect::<Result<_>>()?,
            folders: self.folders,
            data: self.data,
            count: self.networks,
            epochs: self.epochs,
            rate: self.learning_rate,
            augmentation: self.augment,
            precision: match &self.precision[..] {
                "bf16" => Precision::Bf16,
                _ => Precision::F32,
            },
            whole_epochs: self.whole,
            budget: self.budget.as_deref().map(parse_budget).transpose()?,
            seed: self.seed,
        };
        let evaluation = evaluate_condensed(&request, &self.device.new_backend())?;
        evaluation.check_learned()?;
        say(&if self.json {
            format!("{}\n", evaluation.to_json())
        } else {
            evaluation.to_text()
        })?;
        Ok(0)
    }
}
