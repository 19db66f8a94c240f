//! `lessen plan`

use super::candidates;
use super::device_args::DeviceArgs;
use super::output_place::check_place;
use super::recipe_args::RecipeArgs;
use crate::say;
use clap::{Args, ValueEnum};
use lessen_base::{Error, Result};
use lessen_comm::Network;
use lessen_compile::{dump_memory, dump_schedule};
use lessen_graph::print;
use lessen_jobs::SCHEMA;
use lessen_jobs::forecast::{Additions, Forecast, Sharing};
use serde_json::json;
use std::path::PathBuf;
use std::str::FromStr;

/// The part of a plan that `--dump` prints.
#[derive(Clone, Copy, ValueEnum)]
enum Dump {
    /// The graph of a training step after all passes, as text that parses back
    Graph,
    /// The plan steps in order
    Schedule,
    /// The place of every value in memory
    Memory,
}

/// Flags of `lessen plan`.
#[derive(Args)]
pub struct Plan {
    /// Name of a built-in recipe, or a TOML file (paths in it are relative to its folder)
    #[arg(add = candidates::recipes())]
    recipe: String,
    #[command(flatten)]
    over: RecipeArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// Also print time and peak memory of a step under budgets from the floor to none
    #[arg(long, conflicts_with = "dump")]
    sweep: bool,
    /// Also print time and memory of a step with each of these batch sizes under the budget, such as 1,2,4,8, and the
    /// size with the least time per example
    #[arg(
        long,
        value_name = "N,N…",
        value_delimiter = ',',
        conflicts_with = "dump",
        allow_negative_numbers = true
    )]
    batches: Vec<String>,
    /// Forecast the busiest of so many processes that share the training: its memory, its time, and the bytes that it
    /// sends
    #[arg(long, value_name = "N", conflicts_with = "dump")]
    ranks: Option<usize>,
    /// Network between the processes: its rate and latency, such as 1Gbit,10ms
    #[arg(long, value_name = "RATE,LATENCY", requires = "ranks")]
    network: Option<String>,
    /// Also write a page with the memory over a step, the largest values, the planner's choices and the curve of
    /// --sweep
    #[arg(long, value_name = "FILE", conflicts_with = "dump")]
    html: Option<PathBuf>,
    /// Print this part of the plan of a training step instead
    #[arg(long, value_name = "WHAT", conflicts_with = "json")]
    dump: Option<Dump>,
    /// Training phase to print it for, in a recipe with phases
    #[arg(long, value_name = "NAME", requires = "dump")]
    phase: Option<String>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Plan {
    /// Prints the forecast; the exit code, or the error of a budget below the floor.
    pub fn run(self) -> Result<u8> {
        let mut settings = SCHEMA.load(&self.recipe)?;
        self.over.apply(&mut settings, None)?;
        let beside = Additions {
            sweep: self.sweep || self.html.is_some(),
            batches: sizes(&self.batches)?,
            sharing: self.sharing()?,
        };
        if let Some(page) = &self.html {
            let read = self.over.read().chain([PathBuf::from(&self.recipe)]);
            check_place(page, &[], &read.collect::<Vec<PathBuf>>())?;
        }
        let forecast = Forecast::new(settings, &beside, &self.device.new_backend())?;
        if let Some(path) = &self.html {
            forecast.write_html(path)?;
        }
        let shown = self.html.as_ref().map(|path| path.display().to_string());
        let step = || forecast.step(self.phase.as_deref());
        say(&match self.dump {
            Some(Dump::Graph) => print(step()?.graph()),
            Some(Dump::Schedule) => dump_schedule(step()?),
            Some(Dump::Memory) => dump_memory(step()?),
            None if self.json => {
                let mut object = forecast.to_json();
                if let Some(path) = shown {
                    object["page"] = json!(path);
                }
                format!("{object}\n")
            }
            None => {
                let written = shown.map(|path| format!("\nwritten to {path}\n"));
                forecast.to_text() + &written.unwrap_or_default()
            }
        })?;
        forecast.shortfall().map_or(Ok(0), Err)
    }
}

impl Plan {
    /// The processes that are to share the training.
    ///
    /// # Errors
    /// No process; a network that is none.
    fn sharing(&self) -> Result<Option<Sharing>> {
        let network = self.network.as_deref().map(Network::from_str).transpose();
        let network = network.map_err(|error| error.at("--network"))?;
        match self.ranks {
            Some(0) => Err(Error::user("--ranks 0 is no number of processes; give at least 1")),
            ranks => Ok(ranks.map(|processes| Sharing { processes, network })),
        }
    }
}

/// The batch sizes, each once, the least first.
fn sizes(words: &[String]) -> Result<Vec<usize>> {
    let size = |word: &String| match word.trim().parse() {
        Ok(size) if size > 0 => Ok(size),
        _ => Err(Error::user(format!(
            "--batches: '{word}' is no batch size; write whole numbers from 1 on, such as 1,2,4,8"
        ))),
    };
    let mut sizes: Vec<usize> = words.iter().map(size).collect::<Result<_>>()?;
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}
