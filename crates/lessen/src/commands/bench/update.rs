//! `lessen bench update`

use clap::Args;
use lessen::bench::update::{self, Updates};
use lessen_base::Result;
use lessen_base::word::Word;
use lessen_train::show_size;

use crate::say;

/// Flags of `lessen bench update`.
#[derive(Args)]
pub struct Update {
    /// Cases, by letter, as of `lessen bench step`
    #[arg(long, value_delimiter = ',', default_value = "a")]
    case: Vec<String>,
    /// Optimizers
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "sgd,momentum,adagrad,adadelta,rmsprop,adam,adamw"
    )]
    optimizers: Vec<String>,
    /// Batch sizes
    #[arg(long, value_delimiter = ',', default_value = "1,4,16", value_parser = clap::value_parser!(u32).range(1..))]
    batches: Vec<u32>,
    /// Timed steps of each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Greatest norm of the gradient; 0 does not clip
    #[arg(long, default_value_t = 0.0)]
    clip_norm: f64,
    /// Print one JSON array and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Update {
    /// Measures; the exit code.
    pub fn run(self) -> Result<u8> {
        let updates = Updates {
            cases: self.case,
            optimizers: self.optimizers,
            batches: self.batches.iter().map(|&batch| batch as usize).collect(),
            steps: self.steps as usize,
            clip_norm: (self.clip_norm > 0.0).then_some(self.clip_norm),
        };
        let json = update::run(&updates, |row| {
            if !self.json {
                let [forward, backward, update] = row.measured.phase_ms;
                say(&format!(
                    "{}  batch {:<4} {:<11} {:<15} {:>9.1} ms {:>10}  forward {forward:.1}, backward {backward:.1}, \
                     update {update:.1} ms\n",
                    row.case,
                    row.batch,
                    row.optimizer,
                    row.placement.word(),
                    row.measured.median_ms(),
                    show_size(row.measured.planned_peak)
                ))?;
            }
            Ok(())
        })?;
        if self.json {
            say(&format!("{json}\n"))?;
        }
        Ok(0)
    }
}
