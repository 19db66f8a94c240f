//! The benchmark of memory. It compares the plans of fixed policies with plans of the memory planner. The memory
//! planner gets as its limit the bytes that each policy takes, and parts of the arena in which everything is kept.

use lessen_base::Result;
use lessen_base::word::Word;
use lessen_compile::Policy;
use lessen_device::Backend;
use lessen_train::{StepGraphs, StepPlans};
use serde_json::{Map, Value, json};

use super::step::{Planning, chosen, measure};
use super::step_cases::Case;

/// Fixed policies and their names.
const POLICIES: [(&str, Policy); 5] = [
    ("keep all", Policy::KeepAll),
    ("Tempo", Policy::Tempo),
    ("row-wise", Policy::RowWise),
    ("every block", Policy::EveryBlock),
    ("square root", Policy::SquareRoot),
];

/// A plan of a case.
#[derive(Clone, Debug)]
pub struct Row {
    /// The policy, or what the planner may take.
    pub name: String,
    /// Whether the memory planner made it.
    pub by_planner: bool,
    /// Bytes of the arena.
    pub arena: usize,
    /// Bytes of states, constants and arena.
    pub peak: usize,
    /// Milliseconds of a step by the costs that the plan was made with.
    pub estimated_ms: f64,
    /// By what share of its time the fastest plan within the same budget may at most be faster, where that is known.
    pub slower_than_best: Option<f64>,
    /// The median of the measured steps, if any were run.
    pub measured_ms: Option<f64>,
}

/// A case and how its steps are measured.
struct Bench<'a> {
    case: &'a Case,
    graphs: StepGraphs,
    backend: &'a dyn Backend,
    /// How it is planned, but for policy and budget.
    planning: Planning,
    steps: usize,
}

impl Bench<'_> {
    fn row(&self, name: &str, policy: Policy, budget: Option<usize>) -> Result<Row> {
        let planning = Planning {
            budget,
            policy,
            ..self.planning
        };
        let plan = StepPlans::new(self.backend, &planning.options(self.case), &self.graphs)?.step;
        let measured = match self.steps {
            0 => None,
            steps => Some(measure(self.case, steps, planning)?.median_ms()),
        };
        Ok(Row {
            name: name.to_string(),
            by_planner: policy == Policy::Planner,
            arena: plan.arena_bytes(),
            peak: plan.peak_bytes(),
            estimated_ms: 1e3 * plan.estimated_seconds(),
            slower_than_best: plan.slower_than_best(),
            measured_ms: measured,
        })
    }

    fn rows(&self) -> Result<Vec<Row>> {
        let planner = |name: &str, budget: Option<usize>| self.row(name, Policy::Planner, budget);
        let mut policies = POLICIES.to_vec();
        if self.planning.allowed_error > 0.0 {
            policies.push(("invert all", Policy::InvertAll));
        }
        let mut rows = Vec::new();
        for (name, policy) in &policies {
            rows.push(self.row(name, *policy, None)?);
        }
        let options = self.planning.options(self.case);
        let floor = self.graphs.floor_bytes(self.backend, &options)?;
        let (keep, fixed) = (rows[0].arena, rows[0].peak - rows[0].arena);
        rows.push(planner("no budget", None)?);
        rows.push(planner("as keep all", Some(rows[0].peak))?);
        for (name, part) in [("half of keep all", keep / 2), ("a quarter of keep all", keep / 4)] {
            if fixed + part >= floor {
                rows.push(planner(name, Some(fixed + part))?);
            }
        }
        for i in 1..policies.len() {
            let budget = rows[i].peak;
            if budget >= floor {
                rows.push(planner(&format!("as {}", policies[i].0), Some(budget))?);
            }
        }
        if self.planning.allowed_error > 0.0 {
            self.knapsacks(&mut rows, policies.len())?;
        }
        rows.push(planner("floor", Some(floor))?);
        Ok(rows)
    }
}

impl Bench<'_> {
    /// Knapsacks between the plan that keeps everything and the plan that inverts all blocks, which are the first and
    /// the last of the `policies`, and the planner within the same bytes.
    fn knapsacks(&self, rows: &mut Vec<Row>, policies: usize) -> Result<()> {
        let (most, least) = (rows[0].peak, rows[policies - 1].peak);
        for quarters in 1..=3 {
            let budget = Some(least + (most - least) / 4 * quarters);
            let name = format!("knapsack, {quarters}/4 between");
            rows.push(self.row(&name, Policy::Knapsack, budget)?);
            rows.push(self.row(&format!("as {name}"), Policy::Planner, budget)?);
        }
        Ok(())
    }
}

/// Plans the cases with these letters, runs `steps` steps of each plan, and returns what `--json` prints.
///
/// # Errors
/// A sentence when a letter is unknown or a case fails.
pub fn run(
    letters: &[String],
    steps: usize,
    planning: Planning,
    mut report: impl FnMut(&Case, &[Row]),
) -> Result<Value> {
    let mut results = Map::new();
    for case in &chosen(letters)? {
        let case = &planning.sized(case);
        let bench = Bench {
            case,
            graphs: StepGraphs::new(&planning.options(case), |cx| case.loss(cx))?,
            backend: &planning.compiler(case)?,
            planning,
            steps,
        };
        let rows = bench.rows()?;
        report(case, &rows);
        let of_row = |row: &Row| {
            json!({
                "name": row.name,
                "by_planner": row.by_planner,
                "arena_bytes": row.arena,
                "peak_bytes": row.peak,
                "estimated_ms": row.estimated_ms,
                "slower_than_best": row.slower_than_best,
                "measured_ms": row.measured_ms,
            })
        };
        let rows: Vec<Value> = rows.iter().map(of_row).collect();
        let result = json!({ "title": case.title, "cost": planning.cost.word(), "plans": rows });
        results.insert(case.letter.to_string(), result);
    }
    Ok(Value::Object(results))
}
