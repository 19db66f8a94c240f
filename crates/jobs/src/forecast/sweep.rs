//! The sweep: memory and time of a step under budgets from the floor to none.

use super::time::show_ms;
use crate::planning::budget_search::{BudgetSearch, PhasePlans};
use crate::planning::phase_work::PhaseWork;
use crate::planning::process_baseline::ProcessBaseline;
use lessen_base::Result;
use lessen_base::word::Word;
use lessen_compile::CostSource;
use lessen_device::Backend;
use lessen_train::show_size;
use serde_json::{Value, json};

/// Number of budgets of a sweep.
const BUDGETS: usize = 12;

/// The plans under budgets that rise evenly from the floor to what the process takes without one.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    /// The cost model that its plans are made by.
    pub cost: CostSource,
    /// A row for each budget, the least first; the last budget limits nothing.
    pub rows: Vec<BudgetRow>,
}

/// The plans under a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BudgetRow {
    /// Bytes that the process may take.
    pub budget: usize,
    /// Bytes that it takes.
    pub peak: usize,
    /// Estimated milliseconds of a step.
    pub step_ms: f64,
    /// Number and bytes of the values that backward recomputes.
    pub recomputed: (usize, usize),
}

impl BudgetRow {
    fn of(batches: usize, budget: usize, planned: &PhasePlans) -> BudgetRow {
        let recomputed = planned.plans.step.recomputed();
        BudgetRow {
            budget,
            peak: planned.account.total(),
            step_ms: 1e3 * planned.plans.estimated_seconds(batches),
            recomputed: (recomputed.len(), recomputed.iter().map(|choice| choice.bytes).sum()),
        }
    }
}

impl Sweep {
    /// Plans the work of a training phase by the cost model of its options. `beside` has the baseline that the process
    /// has allocated, and the bytes of the plans of later phases.
    ///
    /// # Errors
    /// Steps that cannot be compiled.
    pub(super) fn new(
        work: PhaseWork<'_>,
        beside: (ProcessBaseline, usize),
        backend: &mut dyn Backend,
    ) -> Result<Sweep> {
        let (cost, batches) = (work.options.cost, work.options.own_batches().len());
        let mut search = BudgetSearch::new(backend, beside, work)?;
        let unbounded = search.without_budget()?.account.total();
        let mut falling = budgets(search.floor()?.smallest_budget(), unbounded);
        falling.reverse();
        let mut rows = Vec::with_capacity(falling.len());
        search.for_falling_budgets(&falling, |budget, planned| {
            rows.push(BudgetRow::of(batches, budget, planned))
        })?;
        rows.reverse();
        Ok(Sweep { cost, rows })
    }

    /// Milliseconds of the fastest step.
    pub(super) fn fastest(&self) -> f64 {
        self.rows.iter().map(|row| row.step_ms).fold(f64::INFINITY, f64::min)
    }

    /// Time of a row's step, in multiples of the fastest one.
    pub(super) fn ratio(&self, row: &BudgetRow) -> f64 {
        match self.fastest() {
            fastest if fastest > 0.0 => row.step_ms / fastest,
            _ => 1.0,
        }
    }

    /// An object for each budget.
    pub(super) fn to_json(&self) -> Value {
        let row = |row: &BudgetRow| {
            json!({
                "budget_bytes": row.budget,
                "peak_bytes": row.peak,
                "estimated_step_ms": row.step_ms,
                "ratio": self.ratio(row),
                "recomputed_values": row.recomputed.0,
                "recomputed_bytes": row.recomputed.1,
            })
        };
        self.rows.iter().map(row).collect()
    }

    /// A table in plain text.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!(
            "budgets from the floor to none, steps by {} costs\n{:>12}  {:>12}  {:>10}  {:>6}  recomputed\n",
            self.cost.word(),
            "budget",
            "peak",
            "step",
            "ratio"
        );
        for row in &self.rows {
            let (budget, peak) = (show_mib(row.budget), show_mib(row.peak));
            let (ms, ratio) = (show_ms(row.step_ms), self.ratio(row));
            let (values, bytes) = (row.recomputed.0, show_size(row.recomputed.1));
            text += &format!("{budget:>12}  {peak:>12}  {ms:>10}  {ratio:>6.2}  {bytes} in {values}\n");
        }
        text
    }
}

/// Bytes in MiB, since the budgets of a sweep often differ by less than a tenth of a GiB.
pub(super) fn show_mib(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

/// Budgets that rise evenly from the floor to the bytes without a budget; these alone where the floor is no less.
fn budgets(floor: usize, unbounded: usize) -> Vec<usize> {
    if floor >= unbounded {
        return vec![unbounded];
    }
    let steps = BUDGETS - 1;
    let at = |step: usize| floor + ((unbounded - floor) as f64 * step as f64 / steps as f64) as usize;
    let mut budgets: Vec<usize> = (0..steps).map(at).chain([unbounded]).collect();
    budgets.dedup();
    budgets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_rise_evenly_and_end_where_none_is_needed() {
        let found = budgets(1000, 2100);
        assert_eq!(found.len(), BUDGETS);
        assert!(found.windows(2).all(|pair| pair[1] - pair[0] == 100), "{found:?}");
        assert_eq!((found[0], found[11]), (1000, 2100));
        assert_eq!(budgets(10, 12), [10, 11, 12]);
        assert_eq!(budgets(12, 12), [12]);
        assert_eq!(budgets(13, 12), [12]);
    }

    #[test]
    fn ratios_are_to_the_fastest() {
        let row = |budget: usize, step_ms: f64| BudgetRow {
            budget,
            peak: budget,
            step_ms,
            recomputed: (2, 3 << 20),
        };
        let sweep = Sweep {
            cost: CostSource::Analytic,
            rows: vec![row(1 << 20, 3.0), row(2 << 20, 2.0)],
        };
        assert_eq!(sweep.to_json()[0]["ratio"], 1.5);
        let text = sweep.to_text();
        let expected = "     1.0 MiB       1.0 MiB     3.00 ms    1.50  3.0 MiB in 2";
        assert_eq!(text.lines().nth(2), Some(expected), "{text}");
        assert!(
            text.starts_with("budgets from the floor to none, steps by analytic costs\n"),
            "{text}"
        );
    }
}
