//! The exact knapsack beside all choices.

use lessen_base::SplitMix64;
use lessen_search::{Item, knapsack};

/// The greatest sum of values within a limit, by trying all choices.
fn brute(groups: &[Vec<Item>], limit: f64) -> Option<f64> {
    let Some((first, rest)) = groups.split_first() else {
        return (limit >= 0.0).then_some(0.0);
    };
    let of = |item: &Item| brute(rest, limit - item.cost).map(|value| value + item.value);
    first.iter().filter_map(of).reduce(f64::max)
}

#[test]
fn the_knapsack_is_that_of_all_choices() {
    let seed = 11;
    let mut random = SplitMix64::new(seed);
    let mut met = 0;
    for case in 0..400 {
        let groups: Vec<Vec<Item>> = (0..1 + random.below(5))
            .map(|_| {
                let items = 1 + random.below(6);
                let item = |_| Item {
                    // Whole numbers have equal sums, and others do not.
                    cost: if case % 2 == 0 {
                        random.below(9) as f64
                    } else {
                        random.unit() * 4.0
                    },
                    value: if case % 3 == 0 {
                        random.below(5) as f64
                    } else {
                        random.unit() - 2.0
                    },
                };
                (0..items).map(item).collect()
            })
            .collect();
        let limit = random.unit() * 3.0 * groups.len() as f64;
        let found = knapsack(&groups, limit);
        let best = brute(&groups, limit);
        assert_eq!(found.is_some(), best.is_some(), "seed {seed}, case {case}");
        if let (Some(chosen), Some(best)) = (found, best) {
            met += 1;
            let chosen = groups.iter().zip(&chosen).map(|(group, item)| group[*item]);
            let cost: f64 = chosen.clone().map(|item| item.cost).sum();
            let value: f64 = chosen.map(|item| item.value).sum();
            assert!(
                cost <= limit + 1e-12,
                "seed {seed}, case {case}: {cost} exceeds {limit}"
            );
            assert!(
                (value - best).abs() < 1e-12,
                "seed {seed}, case {case}: {value} is not {best}"
            );
        }
    }
    assert!(met > 100, "{met}");
}

#[test]
fn a_network_of_the_published_size_takes_a_moment() {
    let mut random = SplitMix64::new(2);
    let groups: Vec<Vec<Item>> = (0..52)
        .map(|_| {
            let scale = random.unit();
            let item = |_| Item {
                cost: scale * random.unit(),
                value: -random.unit(),
            };
            (0..16).map(item).collect()
        })
        .collect();
    let least: f64 = groups
        .iter()
        .map(|group| group.iter().map(|item| item.cost).fold(f64::MAX, f64::min))
        .sum();
    let chosen = knapsack(&groups, 2.0 * least).expect("some choice fits");
    let cost: f64 = groups.iter().zip(&chosen).map(|(group, item)| group[*item].cost).sum();
    assert!(cost <= 2.0 * least);
    assert_eq!(knapsack(&groups, 0.99 * least), None);
    assert_eq!(knapsack(&[], 0.0), Some(Vec::new()));
    assert_eq!(knapsack(&[Vec::new()], 1.0), None);
}

#[test]
fn a_limit_that_is_the_sum_of_least_costs_is_kept_to() {
    let seed = 57;
    let mut random = SplitMix64::new(seed);
    for case in 0..20_000 {
        let groups: Vec<Vec<Item>> = (0..2 + random.below(8))
            .map(|_| {
                let items = 1 + random.below(4);
                let item = |_| Item {
                    cost: random.unit() * 1e-3,
                    value: random.unit(),
                };
                (0..items).map(item).collect()
            })
            .collect();
        let least = |group: &Vec<Item>| group.iter().map(|item| item.cost).fold(f64::MAX, f64::min);
        let limit: f64 = groups.iter().map(least).sum();
        let chosen =
            knapsack(&groups, limit).unwrap_or_else(|| panic!("seed {seed}, case {case}: nothing keeps to {limit}"));
        let cost: f64 = groups.iter().zip(&chosen).map(|(group, item)| group[*item].cost).sum();
        assert_eq!(cost, limit, "seed {seed}, case {case}");
        assert_eq!(knapsack(&groups, limit.next_down()), None, "seed {seed}, case {case}");
    }
}
