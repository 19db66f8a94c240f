//! `lessen bench shared`

use clap::Args;
use lessen::bench::shared::{self, SharedSteps};
use lessen::bench::step::Planning;
use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_comm::Network;
use lessen_compile::{CostSource, Placement};
use lessen_train::show_size;

use super::planning_args::PlanningArgs;
use crate::say;

/// Flags of `lessen bench shared`.
#[derive(Args)]
pub struct Shared {
    /// Examples of each process in a step
    #[arg(long, value_delimiter = ',', default_value = "16", value_parser = clap::value_parser!(u32).range(1..))]
    batches: Vec<u32>,
    /// Numbers of processes, for which threads of one core stand
    #[arg(long, value_delimiter = ',', default_value = "2", value_parser = clap::value_parser!(u32).range(2..))]
    processes: Vec<u32>,
    /// Numbers of processes of which steps are forecast only
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=4096))]
    forecast: Vec<u32>,
    /// Placements of updates
    #[arg(long, value_delimiter = ',', default_value = "separate,backward-fused,forward-fused")]
    placements: Vec<String>,
    /// Rate and latency of the network, such as 1Gbit,10ms; without them messages take no time
    #[arg(long, value_name = "RATE,LATENCY")]
    network: Option<String>,
    /// Give each process a piece of each large parameter alone
    #[arg(long)]
    shard_parameters: bool,
    /// Plan within the least memory
    #[arg(long)]
    least: bool,
    /// Timed steps of each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Greatest norm of the gradient; 0 does not clip
    #[arg(long, default_value_t = 0.0)]
    clip_norm: f64,
    #[command(flatten)]
    planning: PlanningArgs,
    /// Print one JSON array and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Shared {
    /// Measures; the exit code.
    pub fn run(self) -> Result<u8> {
        let placement = |word: &String| {
            Placement::from_word(word).ok_or_else(|| {
                Error::user(format!(
                    "there is no placement `{word}`; take from {}",
                    Placement::WORDS.join(", ")
                ))
            })
        };
        let network: Option<Network> = self.network.as_deref().map(str::parse).transpose()?;
        let numbers = |all: &[u32]| all.iter().map(|&number| number as usize).collect();
        let planning = Planning {
            cost: CostSource::Measured,
            ..self.planning.planning()
        };
        let steps = SharedSteps {
            cases: self.planning.case.clone(),
            batches: numbers(&self.batches),
            processes: numbers(&self.processes),
            forecasts: numbers(&self.forecast),
            placements: self.placements.iter().map(placement).collect::<Result<_>>()?,
            network,
            shards_parameters: self.shard_parameters,
            is_least: self.least,
            steps: self.steps as usize,
            clip_norm: (self.clip_norm > 0.0).then_some(self.clip_norm),
            planning,
        };
        let json = shared::run(&steps, |row| {
            if self.json {
                return Ok(());
            }
            let measured = row.step_ms.map_or(String::new(), |ms| format!("{ms:.1} ms"));
            let sent = row.sent.map_or(String::new(), |bytes| show_size(bytes as usize));
            say(&format!(
                "{}  batch {:<4} {:>4} processes  {:<15} {:>11}  forecast {:>9.1} ms {:>10}  sent {sent}\n",
                row.case,
                row.batch,
                row.processes,
                row.placement.word(),
                measured,
                row.forecast_ms,
                show_size(row.peak)
            ))
        })?;
        if self.json {
            say(&format!("{json:#}\n"))?;
        }
        Ok(0)
    }
}
