//! Differences of two points seed by seed. Networks that learned from one set of condensed images share these, so that
//! only their mean counts for the set's seed.

use super::summary::{BySeed, Key, Summary};
use serde_json::{Value, json};

/// Differences of two points; positive ones are for the first point.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pairs {
    /// The mean difference of each seed that both have.
    pub seeds: Vec<f64>,
    /// Pairs of networks in which the first point is better, and all pairs.
    better: usize,
    count: usize,
}

impl Pairs {
    /// The differences of numbers with the same seed and network.
    pub(super) fn of(own: &[(Key, f64)], other: &[(Key, f64)], lower: bool) -> Pairs {
        let sign = if lower { -1.0 } else { 1.0 };
        let pair = |(key, number): &(Key, f64)| {
            let (_, its) = other.iter().find(|(its, _)| its == key)?;
            Some((*key, sign * (number - its)))
        };
        let pairs: BySeed = own.iter().filter_map(pair).collect();
        Pairs {
            seeds: means(&pairs),
            better: pairs.iter().filter(|(_, gain)| *gain > 0.0).count(),
            count: pairs.len(),
        }
    }

    /// Mean and spread of the differences; none where no seed is on both sides.
    pub(super) fn summary(&self) -> Option<Summary> {
        Summary::of(&self.seeds)
    }

    /// Whether seeds have several networks each.
    pub(super) fn has_networks(&self) -> bool {
        self.count > self.seeds.len()
    }

    /// How many pairs of networks are for the first point, in words; `show` writes a difference.
    pub(super) fn told(&self, show: &dyn Fn(f64) -> String) -> String {
        let signed = |gain: &f64| format!("{}{}", if *gain < 0.0 { "-" } else { "+" }, show(gain.abs()));
        let seeds: Vec<String> = self.seeds.iter().map(signed).collect();
        format!(
            "better in {} of {} pairs, set by set {}",
            self.better,
            self.count,
            seeds.join(", ")
        )
    }

    /// One JSON object.
    pub(super) fn to_json(&self) -> Value {
        json!({ "better": self.better, "pairs": self.count, "seeds": self.seeds })
    }
}

/// The mean of each seed's numbers, in the order of the first ones.
pub(super) fn means(numbers: &[(Key, f64)]) -> Vec<f64> {
    let mut seeds: Vec<u64> = Vec::new();
    for ((seed, _), _) in numbers {
        if !seeds.contains(seed) {
            seeds.push(*seed);
        }
    }
    let mean = |seed: &u64| {
        let own = numbers.iter().filter(|((its, _), _)| its == seed);
        let own: Vec<f64> = own.map(|(_, number)| *number).collect();
        own.iter().sum::<f64>() / own.len() as f64
    };
    seeds.iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_the_same_seed_and_network() {
        let own = [((1, 0), 3.0), ((1, 1), 5.0), ((2, 0), 1.0), ((2, 1), 4.0)];
        let other = [((2, 1), 5.0), ((1, 0), 1.0), ((1, 1), 4.0), ((2, 0), 1.0)];
        let found = Pairs::of(&own, &other, false);
        assert_eq!((found.better, found.count, &found.seeds[..]), (2, 4, &[1.5, -0.5][..]));
        assert!(found.has_networks());
        assert_eq!(
            found.told(&|gain| format!("{gain:.1}")),
            "better in 2 of 4 pairs, set by set +1.5, -0.5"
        );
        let lower = Pairs::of(&own, &other, true);
        assert_eq!((lower.better, lower.seeds), (1, vec![-1.5, 0.5]));
        // What has no partner is no pair.
        let fewer = Pairs::of(&own, &other[1..], false);
        assert_eq!((fewer.count, fewer.seeds), (3, vec![1.5, 0.0]));
        let none = Pairs::of(&own[..1], &other[..1], false);
        assert!(none.summary().is_none() && !none.has_networks());
    }
}
