//! The derivative of the mean cost: exact from the table, and by REINFORCE, both beside all networks one by one.

use crate::support::{costs, space_of_64};
use lessen_base::SplitMix64;
use lessen_search::{CostKind, CostTable, Variables, reinforce};

/// The mean cost by the logits, over all networks one by one.
fn enumerated(variables: &Variables, logits: &[f64], cost: &dyn Fn(&[usize]) -> f64) -> f64 {
    let probabilities = variables.probabilities(logits);
    let (mut places, mut mean, mut networks) = (vec![0; variables.all().len()], 0.0, 0);
    'all: loop {
        let chosen = variables.all().iter().zip(&places);
        let probability: f64 = chosen.map(|(own, place)| probabilities[own.first + place]).product();
        mean += probability * cost(&places);
        networks += 1;
        for (own, place) in variables.all().iter().zip(&mut places) {
            *place += 1;
            if *place < own.count {
                continue 'all;
            }
            *place = 0;
        }
        assert_eq!(networks, 64);
        return mean;
    }
}

#[test]
fn reinforce_and_the_table_have_the_derivative_over_all_64_networks() {
    let space = space_of_64();
    let variables = Variables::of(&space);
    let table = CostTable::new(&space, &costs(CostKind::Energy)).unwrap();
    let scale = 1.0 / table.range()[1];
    let cost = |places: &[usize]| scale * table.of(&space, &variables.choices(places));
    let mut random = SplitMix64::new(5);
    let logits: Vec<f64> = (0..variables.len()).map(|_| 2.0 * random.unit() - 1.0).collect();
    let probabilities = variables.probabilities(&logits);
    let slope = |place: usize| {
        let at = |step: f64| {
            let mut moved = logits.clone();
            moved[place] += step;
            enumerated(&variables, &moved, &cost)
        };
        (at(1e-5) - at(-1e-5)) / 2e-5
    };
    let slopes: Vec<f64> = (0..logits.len()).map(slope).collect();
    let (mean, exact) = table.expected(&space, &variables, &probabilities);
    assert!((scale * mean - enumerated(&variables, &logits, &cost)).abs() < 1e-12);
    for (found, slope) in exact.iter().zip(&slopes) {
        assert!((scale * found - slope).abs() < 1e-9, "{found} is not {slope}");
    }

    // The mean of many estimates, by the deviation of that mean.
    let estimates = 4000;
    for samples in [1, 2, 16] {
        let (mut sums, mut squares) = (vec![0.0; logits.len()], vec![0.0; logits.len()]);
        for _ in 0..estimates {
            let found = reinforce(&variables, &probabilities, samples, &mut random, &mut |places| {
                cost(places)
            });
            for (place, part) in found.gradient.iter().enumerate() {
                sums[place] += part;
                squares[place] += part * part;
            }
        }
        for (place, slope) in slopes.iter().enumerate() {
            let mean = sums[place] / f64::from(estimates);
            let variance = squares[place] / f64::from(estimates) - mean * mean;
            let deviation = (variance / f64::from(estimates)).sqrt();
            assert!(
                (mean - slope).abs() <= 4.5 * deviation + 1e-12,
                "{samples} networks: logit {place} has {mean} ± {deviation}, and {slope} over all networks"
            );
        }
    }
}

#[test]
fn a_baseline_makes_estimates_steadier() {
    let space = space_of_64();
    let variables = Variables::of(&space);
    let table = CostTable::new(&space, &costs(CostKind::Energy)).unwrap();
    let probabilities = variables.probabilities(&vec![0.0; variables.len()]);
    let spread = |samples: usize, draws: usize| {
        let mut random = SplitMix64::new(9);
        let mut sum = 0.0;
        for _ in 0..draws {
            let found = reinforce(&variables, &probabilities, samples, &mut random, &mut |places| {
                table.of(&space, &variables.choices(places))
            });
            sum += found.gradient.iter().map(|part| part * part).sum::<f64>();
        }
        sum / draws as f64
    };
    // Two networks without a baseline have half the variance of one; with it they have less.
    assert!(spread(2, 500) < 0.45 * spread(1, 500));
}
