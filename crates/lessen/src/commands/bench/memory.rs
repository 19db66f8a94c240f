//! `lessen bench memory`

use clap::Args;
use lessen::bench::memory;
use lessen_base::Result;
use lessen_train::show_size;

use super::planning_args::PlanningArgs;
use crate::say;

/// Flags of `lessen bench memory`.
#[derive(Args)]
pub struct Memory {
    #[command(flatten)]
    plans: PlanningArgs,
    /// Timed steps of each plan; 0 only plans
    #[arg(long, default_value_t = 0)]
    steps: u32,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Memory {
    /// Measures; the exit code.
    pub fn run(self) -> Result<u8> {
        let mut table = String::new();
        let json = memory::run(
            &self.plans.case,
            self.steps as usize,
            self.plans.planning(),
            |case, rows| {
                table += &format!("{}  {}\n", case.letter, case.title);
                table += &format!(
                    "   {:<34} {:>10} {:>10} {:>12} {:>12} {:>12}\n",
                    "", "arena", "peak", "estimated", "within", "measured"
                );
                for row in rows {
                    let name = if row.by_planner {
                        format!("planner, {}", row.name)
                    } else {
                        row.name.clone()
                    };
                    let within = row
                        .slower_than_best
                        .map_or(String::new(), |share| format!("{:.1} %", 100.0 * share));
                    let measured = row.measured_ms.map_or(String::new(), |ms| format!("{ms:.1} ms"));
                    table += &format!(
                        "   {name:<34} {:>10} {:>10} {:>9.1} ms {within:>12} {measured:>12}\n",
                        show_size(row.arena),
                        show_size(row.peak),
                        row.estimated_ms
                    );
                }
            },
        )?;
        say(&if self.json { format!("{json}\n") } else { table })?;
        Ok(0)
    }
}
