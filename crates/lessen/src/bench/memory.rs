//! The benchmark of memory: the plans of fixed policies, and those of the memory planner within the bytes that each of
//! them takes and within parts of the arena in which everything is kept.

use lessen_base::Result;
use lessen_compile::{Backend, CostModel, Policy, Precision};
use lessen_run::recipe::words::Word;
use lessen_train::{StepGraphs, StepPlans};
use serde_json::{Map, Value, json};

use super::step::{Planning, chosen, measure};
use super::step_cases::Case;

/// Fixed policies and their names.
const POLICIES: [(&str, Policy); 4] = [
    ("keep all", Policy::KeepAll),
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
    /// The median of the measured steps, if any were run.
    pub measured_ms: Option<f64>,
}

/// A case and how its steps are measured.
struct Bench<'a> {
    case: &'a Case,
    graphs: StepGraphs,
    backend: &'a dyn Backend,
    precision: Precision,
    cost: CostModel,
    steps: usize,
}

impl Bench<'_> {
    fn row(&self, name: &str, policy: Policy, budget: Option<usize>) -> Result<Row> {
        let planning = Planning {
            budget,
            precision: self.precision,
            policy,
            cost: self.cost,
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
            measured_ms: measured,
        })
    }

    fn rows(&self) -> Result<Vec<Row>> {
        let planner = |name: &str, budget: Option<usize>| self.row(name, Policy::Planner, budget);
        let mut rows = Vec::new();
        for (name, policy) in POLICIES {
            rows.push(self.row(name, policy, None)?);
        }
        let options = Planning {
            precision: self.precision,
            ..Planning::default()
        };
        let floor = self.graphs.floor_bytes(self.backend, &options.options(self.case))?;
        let (keep, fixed) = (rows[0].arena, rows[0].peak - rows[0].arena);
        rows.push(planner("no budget", None)?);
        rows.push(planner("as keep all", Some(rows[0].peak))?);
        for (name, part) in [("half of keep all", keep / 2), ("a quarter of keep all", keep / 4)] {
            if fixed + part >= floor {
                rows.push(planner(name, Some(fixed + part))?);
            }
        }
        for i in 1..POLICIES.len() {
            let budget = rows[i].peak;
            if budget >= floor {
                rows.push(planner(&format!("as {}", POLICIES[i].0), Some(budget))?);
            }
        }
        rows.push(planner("floor", Some(floor))?);
        Ok(rows)
    }
}

/// Plans the cases with these letters, runs `steps` steps of each plan, and returns what `--json` prints.
///
/// # Errors
/// A sentence when a letter is unknown or a case fails.
pub fn run(
    letters: &[String],
    steps: usize,
    (precision, cost): (Precision, CostModel),
    mut report: impl FnMut(&Case, &[Row]),
) -> Result<Value> {
    let mut results = Map::new();
    for case in &chosen(letters)? {
        let options = Planning {
            precision,
            cost,
            ..Planning::default()
        };
        let bench = Bench {
            case,
            graphs: StepGraphs::new(&options.options(case), |cx| case.loss(cx))?,
            backend: &options.compiler(case)?,
            precision,
            cost,
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
                "measured_ms": row.measured_ms,
            })
        };
        let rows: Vec<Value> = rows.iter().map(of_row).collect();
        let result = json!({ "title": case.title, "cost": cost.word(), "plans": rows });
        results.insert(case.letter.to_string(), result);
    }
    Ok(Value::Object(results))
}
