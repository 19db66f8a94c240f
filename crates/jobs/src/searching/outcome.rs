//! What a search found, as files: the network, a recipe that trains it, probabilities, report.

use super::folder::{ARCHITECTURE, RECIPE, REPORT};
use super::settings::Job;
use crate::job::JobFolder;
use crate::job::RecipeImages;
use crate::schema::SearchKeys;
use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_data::images::ImageSource;
use lessen_nn::layers::Spread;
use lessen_nn::models::vision::MixedArchitecture;
use lessen_search::{Aspect, Choice, Searcher, Space};
use lessen_task::recipe::config::Config;
use lessen_task::recipe::value::SettingValue;
use serde_json::{Value, json};

/// Sections of the recipe that have a part in the training of the network.
const KEPT: [&str; 5] = ["run.", "data.", "image.", "train.", "optimizer."];

/// The greatest norm of a gradient in the training of the network, where the recipe says none: a channel that hardly
/// varies over a batch has large derivatives. The dissertation keeps elements within 5.
const CLIP: f64 = 5.0;

/// What a network costs and how it was found.
pub(super) struct Outcome {
    pub choices: Vec<Choice>,
    pub architecture: MixedArchitecture,
    /// All numbers of the report.
    pub numbers: Value,
}

impl Outcome {
    /// The outcome of these choices, with more numbers of the method.
    ///
    /// # Errors
    /// A network that the hardware cannot model.
    pub(super) fn new(
        job: &Job,
        config: &Config,
        images: &RecipeImages,
        choices: Vec<Choice>,
        more: Value,
    ) -> Result<Outcome> {
        let architecture = job.space.architecture(&choices);
        let costs = job.costs(images.train.shape(), images.train.classes());
        let network = costs.network(&architecture)?;
        let batch = job.cost_batch as f64;
        let total = &network.total;
        let [least, most] = job.table.range();
        let bits = |which: usize| {
            let all = architecture.blocks.iter().map(|block| f64::from(block.bits[which]));
            all.sum::<f64>() / architecture.blocks.len().max(1) as f64
        };
        let mut numbers = json!({
            "recipe": config.recipe(),
            "method": job.method.to_string(),
            "cost": job.settings.cost.word(),
            "unit": job.settings.cost.unit(),
            "limit": job.settings.limit,
            "lambda": job.settings.lambda,
            "seed": job.settings.seed,
            "accelerator": job.hardware.name(),
            "notes": job.hardware.notes(),
            "value": job.table.of(&job.space, &choices),
            "least": least,
            "most": most,
            "energy_mj": total.energy.map(|energy| energy.total() * 1e-6 / batch),
            "latency_ms": total.milliseconds / batch,
            "size_mb": total.weight_bytes as f64 * 1e-6,
            "utilisation": total.utilisation,
            "products": total.macs as f64 / batch,
            "blocks": architecture.blocks.len(),
            "mean_bits_pointwise": bits(0),
            "mean_bits_depthwise": bits(1),
        });
        if let (Some(own), Some(more)) = (numbers.as_object_mut(), more.as_object()) {
            own.extend(more.clone());
        }
        Ok(Outcome {
            choices,
            architecture,
            numbers,
        })
    }

    /// Writes the network, the recipe and what the report says in words.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write(&self, folder: &JobFolder, job: &Job, config: &Config) -> Result<()> {
        folder.write(ARCHITECTURE, self.architecture.to_text().as_bytes())?;
        folder.write(RECIPE, self.recipe(folder, config)?.as_bytes())?;
        folder.write("report.md", self.text(job).as_bytes())
    }

    /// The recipe that trains the network.
    fn recipe(&self, folder: &JobFolder, config: &Config) -> Result<String> {
        let mut settings = config.settings.clone();
        settings
            .values
            .retain(|name, _| KEPT.iter().any(|kept| name.starts_with(kept)));
        let mut set = |name: &str, value: SettingValue| settings.set_named(name, value, "the search".to_string());
        let text = |text: &str| SettingValue::Text(text.to_string());
        set("model.kind", text("mixed-mobilenet"))?;
        set("model.architecture", text(ARCHITECTURE))?;
        let spread = config.settings.section::<SearchKeys>()?.spread;
        set("model.batch_norm", text(spread.unwrap_or(Spread::Range).name()))?;
        if !config.is_given("train.clip_norm") {
            set("train.clip_norm", SettingValue::Number(CLIP))?;
        }
        set("run.recipe", text(&format!("{}-searched", config.recipe())))?;
        Ok(format!(
            "# The network that the search in {} found: `lessen train {} --data DIR` trains it with its bits.\n{}",
            folder.root().display(),
            folder.root().join(RECIPE).display(),
            settings.to_toml()
        ))
    }

    /// The report in words.
    fn text(&self, job: &Job) -> String {
        let number = |key: &str| self.numbers[key].as_f64().unwrap_or(f64::NAN);
        let unit = job.settings.cost.unit();
        let limit = job
            .settings
            .limit
            .map_or("none".to_string(), |limit| format!("{limit} {unit}"));
        let mut text = format!(
            "# Search ({})\n\n{} on {}: {:.4} {unit}, of {} to {:.4} {unit} in the space (limit: {limit}). An image takes \
             {:.4} mJ and {:.4} ms, in which {:.1} % of the units are used; the weights have {:.4} MB.\n\n| block | channels | stride | expansion | kernel | b1 | b2 \
             |\n|---|---|---|---|---|---|---|\n",
            job.method,
            job.settings.cost,
            job.hardware.name(),
            number("value"),
            job.table.least_limit(),
            number("most"),
            number("energy_mj"),
            number("latency_ms"),
            100.0 * number("utilisation"),
            number("size_mb"),
        );
        for (number, (block, choice)) in job.space.blocks.iter().zip(&self.choices).enumerate() {
            text += &match block.block(*choice) {
                None => format!("| {number} | {} | left out | | | | |\n", block.out),
                Some(own) => format!(
                    "| {number} | {} | {} | {} | {} | {} | {} |\n",
                    own.out, own.stride, own.expansion, own.kernel, own.bits[0], own.bits[1]
                ),
            };
        }
        text += &format!(
            "\nMean bits of 1 x 1 layers {:.2}, of depthwise layers {:.2}.\n",
            number("mean_bits_pointwise"),
            number("mean_bits_depthwise")
        );
        for note in job.hardware.notes() {
            text += &format!("- {note}\n");
        }
        text
    }

    /// Writes the numbers of the report, which say that the search has ended.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write_report(&self, folder: &JobFolder) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.numbers);
        let text = text.map_err(|error| Error::internal(format!("the report cannot be written ({error})")))?;
        folder.write(REPORT, format!("{text}\n").as_bytes())
    }
}

/// The probability of every possibility of every block.
pub(super) fn probabilities(space: &Space, searcher: &Searcher<'_>) -> Result<Value> {
    let (variables, logits) = (searcher.variables(), searcher.logits()?);
    let probabilities = variables.probabilities(&logits);
    let blocks: Vec<Value> = (space.blocks.iter().enumerate())
        .map(|(number, block)| {
            let mut all = serde_json::Map::new();
            for aspect in Aspect::ALL {
                if let Some(variable) = variables.find(number, aspect) {
                    let own = (0..variable.count).map(|place| {
                        let probability = probabilities[variable.first + place];
                        (block.word(aspect, place), json!(probability))
                    });
                    all.insert(aspect.word().to_string(), Value::Object(own.collect()));
                }
            }
            Value::Object(all)
        })
        .collect();
    Ok(Value::Array(blocks))
}
