//! `lessen bench step`

use clap::Args;
use lessen::bench::step;
use lessen_base::Result;
use lessen_train::{parse_size, show_size};

use super::planning_args::PlanningArgs;
use crate::say;

/// Flags of `lessen bench step`.
#[derive(Args)]
pub struct Step {
    #[command(flatten)]
    plans: PlanningArgs,
    /// Timed steps of each case
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Most memory of a step, instead of the case's own: 512MiB, 2GiB
    #[arg(long)]
    budget: Option<String>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Step {
    /// Measures; the exit code.
    pub fn run(self) -> Result<u8> {
        let budget = self.budget.as_deref().map(parse_size).transpose()?;
        let planning = step::Planning {
            budget,
            ..self.plans.planning()
        };
        let mut table = String::new();
        let json = step::run(&self.plans.case, self.steps as usize, planning, |case, m, peak| {
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
            say(&format!("{json}\n"))?;
        } else {
            let (peak, threads) = (json["peak_gflops"].as_f64().unwrap_or_default(), &json["threads"]);
            say(&format!(
                "{table}peak of products {peak:.0} GFLOP/s with {threads} threads\n"
            ))?;
        }
        Ok(0)
    }
}
