//! The planner's bound on random networks: by how much a plan under a budget may be slower than the fastest one.

use lessen_base::Result;
use lessen_compile::Policy;
use lessen_cpu::CpuBackend;
use lessen_train::{StepGraphs, StepPlans, TrainerOptions};
use serde_json::{Value, json};

use super::random_network;

/// Budgets of each network: their names, and the parts that they leave of the arena in which everything is kept; the
/// floor where that is more.
const BUDGETS: [(&str, f64); 4] = [
    ("three quarters", 0.75),
    ("half", 0.5),
    ("a quarter", 0.25),
    ("floor", 0.0),
];

/// Percentiles that are told.
const PERCENTILES: [usize; 4] = [50, 90, 99, 100];

/// The plans of all networks under one of the budgets.
#[derive(Clone, Debug)]
pub struct Shares {
    /// The budget in words.
    pub budget: &'static str,
    /// [`Plan::slower_than_best`](lessen_compile::Plan::slower_than_best) of each network that has a bound, ascending.
    pub shares: Vec<f64>,
    /// Networks without a bound: they have too few blocks to be cut, and too many values to plan all sets.
    pub without: usize,
}

impl Shares {
    /// The percentile `percent` of the networks' shares; 0 where none has a bound.
    pub fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.shares.len() * percent).div_ceil(100);
        self.shares.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    fn to_json(&self) -> Value {
        let percentiles = PERCENTILES.map(|percent| (format!("p{percent}"), json!(self.percentile(percent))));
        let exact = self.shares.iter().filter(|share| **share == 0.0).count();
        let mut object = json!({ "networks": self.shares.len(), "without_bound": self.without, "best": exact });
        for (name, value) in percentiles {
            object[name] = value;
        }
        object
    }

    /// A line in words.
    pub fn to_text(&self) -> String {
        let percentiles = PERCENTILES.map(|percent| format!("{:>8.2} %", 100.0 * self.percentile(percent)));
        format!(
            "{:<15} {:>8} {:>8}{}\n",
            self.budget,
            self.shares.len(),
            self.without,
            percentiles.concat()
        )
    }
}

/// The heads of the columns of [`Shares::to_text`].
pub fn heads() -> String {
    let percentiles = PERCENTILES.map(|percent| format!("{:>10}", format!("p{percent}")));
    format!(
        "{:<15} {:>8} {:>8}{}\n",
        "budget",
        "networks",
        "without",
        percentiles.concat()
    )
}

/// Plans the networks of the seeds from 0 to `networks` by analytic costs under all budgets.
///
/// # Errors
/// A sentence when a network cannot be planned.
pub fn run(networks: u64) -> Result<(Vec<Shares>, Value)> {
    let backend = CpuBackend::new(2)?;
    let mut all = BUDGETS.map(|(budget, _)| Shares {
        budget,
        shares: Vec::new(),
        without: 0,
    });
    for seed in 0..networks {
        let options = TrainerOptions::new(1e-3);
        let graphs = StepGraphs::new(&options, |cx| random_network::loss(seed, cx))?;
        let keeping = TrainerOptions {
            policy: Policy::KeepAll,
            ..options.clone()
        };
        let keep = StepPlans::new(&backend, &keeping, &graphs)?.step;
        let (arena, floor) = (keep.arena_bytes(), graphs.floor_bytes(&backend, &options)?);
        for ((_, part), found) in BUDGETS.iter().zip(&mut all) {
            let room = (part * arena as f64) as usize;
            let budget = Some(floor.max(keep.peak_bytes() - arena + room));
            let plans = StepPlans::new(
                &backend,
                &TrainerOptions {
                    budget,
                    ..options.clone()
                },
                &graphs,
            )?;
            match plans.step.slower_than_best() {
                Some(share) => found.shares.push(share),
                None => found.without += 1,
            }
        }
    }
    all.iter_mut().for_each(|found| found.shares.sort_by(f64::total_cmp));
    let object = all
        .iter()
        .map(|found| (found.budget.to_string(), found.to_json()))
        .collect();
    Ok((all.to_vec(), Value::Object(object)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_ascending_shares() {
        let shares = |shares: &[f64]| Shares {
            budget: "half",
            shares: shares.to_vec(),
            without: 0,
        };
        let four = shares(&[0.0, 0.01, 0.02, 0.04]);
        assert_eq!(
            [50, 75, 100].map(|percent| four.percentile(percent)),
            [0.01, 0.02, 0.04]
        );
        assert_eq!(shares(&[]).percentile(50), 0.0);
    }

    /// What a larger budget allows, a smaller one allows, too, so the best is no slower there.
    #[test]
    fn the_bound_falls_with_the_budget() {
        let backend = CpuBackend::new(2).unwrap();
        for seed in 0..3 {
            let options = TrainerOptions::new(1e-3);
            let graphs = StepGraphs::new(&options, |cx| random_network::loss(seed, cx)).unwrap();
            let floor = graphs.floor_bytes(&backend, &options).unwrap();
            let mut before = f64::INFINITY;
            for tenths in 10..=20 {
                let budget = Some(floor / 10 * tenths + floor % 10);
                let options = TrainerOptions {
                    budget,
                    ..options.clone()
                };
                let plan = StepPlans::new(&backend, &options, &graphs).unwrap().step;
                let share = plan.slower_than_best().unwrap();
                let least = plan.estimated_seconds() / (1.0 + share);
                assert!(
                    least <= before * (1.0 + 1e-9),
                    "seed {seed}, {tenths} tenths of the floor: {least}, {before}"
                );
                before = least;
            }
        }
    }

    #[test]
    fn random_networks_have_bounds_that_are_the_same_every_time() {
        let (found, json) = run(6).unwrap();
        assert!(found.iter().any(|found| !found.shares.is_empty()), "{json}");
        assert!(
            found
                .iter()
                .flat_map(|found| &found.shares)
                .all(|share| (0.0..1.0).contains(share)),
            "{json}"
        );
        assert_eq!(run(6).unwrap().1, json);
    }
}
