//! `lessen bench memory`

use clap::Args;
use lessen::bench::memory;
use lessen::bench::step::Planning;
use lessen_compile::{CostModel, Precision};
use lessen_run::Result;
use lessen_run::recipe::words::Word;
use lessen_train::show_size;

use crate::say;

/// Flags of `lessen bench memory`.
#[derive(Args)]
pub struct Memory {
    /// Cases, by letter, as of `lessen bench step`
    #[arg(long, value_delimiter = ',', default_value = "a,b,c")]
    case: Vec<String>,
    /// Timed steps of each plan; 0 only plans
    #[arg(long, default_value_t = 0)]
    steps: u32,
    /// What products of matrices read: f32 or bf16
    #[arg(long, default_value = "f32", value_parser = ["f32", "bf16"])]
    precision: String,
    /// Greatest error of what backward has in an inexact way
    #[arg(long, default_value_t = 0.0)]
    allow_error: f64,
    /// What the memory planner knows of times: analytic or measured
    #[arg(long, default_value = "analytic", value_parser = ["analytic", "measured"])]
    cost: String,
    /// Examples in a batch, instead of the case's own
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Memory {
    /// Measures; the exit code.
    pub fn run(self) -> Result<u8> {
        let precision = match self.precision.as_str() {
            "bf16" => Precision::Bf16,
            _ => Precision::F32,
        };
        let cost = CostModel::from_word(&self.cost).expect("the word is one of the choices");
        let mut table = String::new();
        let planning = Planning {
            precision,
            allowed_error: self.allow_error,
            cost,
            batch: self.batch.map(|batch| batch as usize),
            ..Planning::default()
        };
        let json = memory::run(&self.case, self.steps as usize, planning, |case, rows| {
            table += &format!("{}  {}\n", case.letter, case.title);
            table += &format!(
                "   {:<34} {:>10} {:>10} {:>12} {:>12}\n",
                "", "arena", "peak", "estimated", "measured"
            );
            for row in rows {
                let name = if row.by_planner {
                    format!("planner, {}", row.name)
                } else {
                    row.name.clone()
                };
                let measured = row.measured_ms.map_or(String::new(), |ms| format!("{ms:.1} ms"));
                table += &format!(
                    "   {name:<34} {:>10} {:>10} {:>9.1} ms {measured:>12}\n",
                    show_size(row.arena),
                    show_size(row.peak),
                    row.estimated_ms
                );
            }
        })?;
        say(&if self.json { format!("{json}\n") } else { table });
        Ok(0)
    }
}
