//! Comparison of batch sizes: memory and time of a step, and the size with the least time per example.

use super::Forecast;
use super::phase::PhaseAdditions;
use super::time::show_ms;
use crate::planning::account::Account;
use crate::planning::process_baseline::ProcessStart;
use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_compile::CostSource;
use lessen_task::device::NewBackend;
use lessen_task::recipe::phases::Recipe;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::SettingValue;
use lessen_task::shared_data::SharedData;
use lessen_train::show_size;
use serde_json::{Value, json};

/// The plans for several batch sizes, under the recipe's budget.
pub(super) struct BatchSizes {
    /// The cost model that they are made by.
    pub cost: CostSource,
    /// Rows in the order of the sizes.
    pub rows: Vec<SizeRow>,
}

/// The plan for one batch size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SizeRow {
    /// Examples of a batch.
    pub batch: usize,
    /// Bytes that the process takes; none where the budget is below the floor.
    pub peak: Option<usize>,
    /// The smallest budget.
    pub floor: usize,
    /// Estimated milliseconds of a step, and for each of its examples; none where the budget is below the floor.
    pub step_ms: Option<f64>,
    pub example_ms: Option<f64>,
}

impl BatchSizes {
    /// Plans a recipe with each size in `sizes` in place of `train.batch`, as in a process that is still as it was at
    /// its start.
    ///
    /// # Errors
    /// A recipe with phases, or with `train.tokens`; settings with a mistake.
    pub(super) fn new(
        (settings, shared): (&Settings, &SharedData),
        sizes: &[usize],
        start: Option<ProcessStart>,
        new_backend: &NewBackend,
    ) -> Result<BatchSizes> {
        let mut rows = Vec::with_capacity(sizes.len());
        let mut cost = CostSource::Analytic;
        for &batch in sizes {
            let mut settings = settings.clone();
            let flag = format!("--batches {batch}");
            settings.set_named("train.batch", SettingValue::Count(batch as u64), flag)?;
            let recipe = Recipe::new(settings)?;
            check(&recipe)?;
            let asked = PhaseAdditions {
                examples: true,
                ..PhaseAdditions::default()
            };
            let forecast = Forecast::of_recipe((recipe, shared), asked, start, new_backend)?;
            cost = forecast.phases[0].cost;
            rows.push(row(batch, &forecast));
        }
        Ok(BatchSizes { cost, rows })
    }

    /// The size with the least time per example; none where no plan fits.
    pub(super) fn best(&self) -> Option<usize> {
        let feasible = self.rows.iter().filter_map(|row| Some((row.batch, row.example_ms?)));
        feasible.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(batch, _)| batch)
    }

    /// An object for each size.
    pub(super) fn to_json(&self) -> Value {
        let row = |row: &SizeRow| {
            json!({
                "batch": row.batch,
                "feasible": row.peak.is_some(),
                "peak_bytes": row.peak,
                "floor_bytes": row.floor,
                "estimated_step_ms": row.step_ms,
                "estimated_ms_per_example": row.example_ms,
            })
        };
        self.rows.iter().map(row).collect()
    }

    /// A table in plain text.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!(
            "batch sizes, steps by {} costs\n{:>10}  {:>10}  {:>10}  {:>10}  {:>11}\n",
            self.cost.word(),
            "batch",
            "peak",
            "floor",
            "step",
            "per example"
        );
        for row in &self.rows {
            let (batch, floor) = (row.batch, show_size(row.floor));
            text += &match (row.peak, row.step_ms, row.example_ms) {
                (Some(peak), Some(step), Some(example)) => {
                    let (peak, step, example) = (show_size(peak), show_ms(step), show_ms(example));
                    format!("{batch:>10}  {peak:>10}  {floor:>10}  {step:>10}  {example:>11}\n")
                }
                _ => format!("{batch:>10}  {:>10}  {floor:>10}  below the floor\n", "-"),
            };
        }
        text + &match self.best() {
            Some(batch) => format!("batches of {batch} have the best throughput\n"),
            None => "no batch fits into the budget\n".to_string(),
        }
    }
}

/// Refuses recipes without a single batch size.
fn check(recipe: &Recipe) -> Result<()> {
    let first = &recipe.phases[0];
    if first.phase.is_some() {
        return Err(Error::user(
            "--batches compares batches of a single step, but the recipe has phases, each with a step of its own; \
             leave out --batches and set train.batch, or phase.NAME.train.batch, with --set",
        ));
    }
    match first.train.tokens {
        0 => Ok(()),
        tokens => Err(Error::user(format!(
            "--batches compares batches of so many examples, but train.tokens = {tokens} bounds them by their tokens; \
             leave out --batches, or set train.tokens to 0"
        ))),
    }
}

fn row(batch: usize, forecast: &Forecast) -> SizeRow {
    let phase = &forecast.phases[0];
    // No batch is larger than the data.
    let examples = phase.examples.unwrap_or(batch).max(1) * phase.config.train.accumulate;
    let step_ms = phase.step_ms();
    SizeRow {
        batch,
        peak: phase.chosen.as_ref().map(Account::total),
        floor: phase.floor.smallest_budget(),
        step_ms,
        example_ms: step_ms.map(|ms| ms / examples as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(rows: &[(usize, Option<f64>)]) -> BatchSizes {
        let row = |&(batch, example_ms): &(usize, Option<f64>)| SizeRow {
            batch,
            peak: example_ms.map(|_| batch << 20),
            floor: batch << 19,
            step_ms: example_ms.map(|ms| ms * batch as f64),
            example_ms,
        };
        BatchSizes {
            cost: CostSource::Analytic,
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn the_best_size_has_the_least_time_for_an_example() {
        let found = sizes(&[(1, Some(4.0)), (2, Some(3.0)), (4, Some(3.5)), (8, None)]);
        assert_eq!(found.best(), Some(2));
        let text = found.to_text();
        assert!(text.ends_with("batches of 2 have the best throughput\n"), "{text}");
        assert!(
            text.contains("         8           -     4.0 MiB  below the floor\n"),
            "{text}"
        );
        assert_eq!(found.to_json()[3]["estimated_step_ms"], Value::Null);
        let none = sizes(&[(8, None)]);
        assert!(none.best().is_none() && none.to_text().ends_with("no batch fits into the budget\n"));
    }
}
