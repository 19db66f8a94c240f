//! `lessen bench step`

use clap::Args;
use lessen::bench::step;
use lessen_compile::{CostModel, Policy, Precision};
use lessen_run::Result;
use lessen_run::recipe::words::Word;
use lessen_train::{parse_size, show_size};

use crate::say;

/// Flags of `lessen bench step`.
#[derive(Args)]
pub struct Step {
    /// Cases, by letter
    #[arg(long, value_delimiter = ',', default_value = "a,b,c")]
    case: Vec<String>,
    /// Timed steps of each case
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Most memory of a step, instead of the case's own: 512MiB, 2GiB
    #[arg(long)]
    budget: Option<String>,
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

impl Step {
    /// Measures; the exit code.
    pub fn run(self) -> Result<u8> {
        let budget = self.budget.as_deref().map(parse_size).transpose()?;
        let precision = match self.precision.as_str() {
            "bf16" => Precision::Bf16,
            _ => Precision::F32,
        };
        let planning = step::Planning {
            budget,
            precision,
            policy: Policy::default(),
            allowed_error: self.allow_error,
            cost: CostModel::from_word(&self.cost).expect("the word is one of the choices"),
            batch: self.batch.map(|batch| batch as usize),
        };
        let mut table = String::new();
        let json = step::run(&self.case, self.steps as usize, planning, |case, m, peak| {
            let spread = format!("{:.1} .. {:.1}", m.step_ms[0], m.step_ms[m.step_ms.len() - 1]);
            table += &format!("{}  {}\n", case.letter, case.title);
            table += &format!("   compile        {:>9.1} ms\n", m.compile_ms);
            table += &format!("   estimated      {:>9.1} ms\n", m.estimated_ms);
            table += &format!(
                "   step           {:>9.1} ms   ({spread}, {} steps)\n",
                m.median_ms(),
                m.step_ms.len()
            );
            table += &format!("   in products    {:>9.1} %\n", 100.0 * m.matmul_share);
            let (speed, of_peak) = (m.flops() / 1e9, 100.0 * m.flops() / peak);
            table +=
                &format!("   products       {speed:>9.0} GFLOP/s over the whole step, {of_peak:.0} % of the peak\n");
            table += &format!("   memory planned {:>12}\n", show_size(m.planned_peak));
            table += &format!("   memory in use  {:>12}\n", show_size(m.measured_peak));
            if let Some(growth) = m.resident_growth {
                table += &format!(
                    "   resident       {:>12} more than before the step\n",
                    show_size(growth)
                );
            }
        })?;
        if self.json {
            say(&format!("{json}\n"));
        } else {
            let (peak, threads) = (json["peak_gflops"].as_f64().unwrap_or_default(), &json["threads"]);
            say(&format!(
                "{table}peak of products {peak:.0} GFLOP/s with {threads} threads\n"
            ));
        }
        Ok(0)
    }
}
