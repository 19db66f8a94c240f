//! Differences of two points pair by pair, where several networks learned from each set of images.
//!
//! Networks of one set share its images, so their accuracies do not tell how sets differ. Two points are compared by
//! pairs with the same seed and the same initial values, and by the mean of each set.

use super::summary::Key;
use serde_json::{Value, json};

/// Differences of two points pair by pair; positive ones are for the first point.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pairs {
    /// Pairs in which the first point is better, and those in which the two differ.
    better: usize,
    differ: usize,
    count: usize,
    /// The mean difference of each set.
    sets: Vec<f64>,
}

impl Pairs {
    /// None where not all numbers have a partner, or there is one number of each seed.
    pub(super) fn of(own: &[(Key, f64)], other: &[(Key, f64)], lower: bool) -> Option<Pairs> {
        let partner = |key: Key| other.iter().find(|(its, _)| *its == key);
        let sign = if lower { -1.0 } else { 1.0 };
        let pairs = own
            .iter()
            .map(|(key, number)| Some((key.0, sign * (number - partner(*key)?.1))));
        let pairs: Vec<(u64, f64)> = pairs.collect::<Option<_>>()?;
        let mut seeds: Vec<u64> = Vec::new();
        for (seed, _) in &pairs {
            if !seeds.contains(seed) {
                seeds.push(*seed);
            }
        }
        if pairs.len() != other.len() || seeds.len() == pairs.len() {
            return None;
        }
        let mean = |seed: &u64| {
            let of_set: Vec<f64> = pairs
                .iter()
                .filter(|(own, _)| own == seed)
                .map(|(_, gain)| *gain)
                .collect();
            of_set.iter().sum::<f64>() / of_set.len() as f64
        };
        Some(Pairs {
            better: pairs.iter().filter(|(_, gain)| *gain > 0.0).count(),
            differ: pairs.iter().filter(|(_, gain)| *gain != 0.0).count(),
            count: pairs.len(),
            sets: seeds.iter().map(mean).collect(),
        })
    }

    /// The probability of a split at least as uneven where neither point is better: the two-sided sign test.
    fn chance(&self) -> f64 {
        let (n, extreme) = (self.differ, self.better.max(self.differ - self.better));
        let mut term = 0.5f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
        let mut sum = 0.0;
        for k in 0..=n - extreme {
            sum += term;
            term *= (n - k) as f64 / (k + 1) as f64;
        }
        (2.0 * sum).min(1.0)
    }

    /// In words; `show` writes a difference.
    pub(super) fn told(&self, show: &dyn Fn(f64) -> String) -> String {
        let sets = self.sets.iter().map(|gain| {
            let sign = if *gain < 0.0 { "-" } else { "+" };
            format!("{sign}{}", show(gain.abs()))
        });
        format!(
            "better in {} of {} pairs (p {}), set by set {}",
            self.better,
            self.count,
            match self.chance() {
                chance if chance < 0.01 => format!("{chance:.0e}"),
                chance => format!("{chance:.2}"),
            },
            sets.collect::<Vec<_>>().join(", ")
        )
    }

    /// One JSON object.
    pub(super) fn to_json(&self) -> Value {
        json!({ "better": self.better, "pairs": self.count, "p": self.chance(), "sets": self.sets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_the_same_set_and_network() {
        let own = [((1, 0), 3.0), ((1, 1), 5.0), ((2, 0), 1.0), ((2, 1), 4.0)];
        let other = [((2, 1), 5.0), ((1, 0), 1.0), ((1, 1), 4.0), ((2, 0), 1.0)];
        let found = Pairs::of(&own, &other, false).unwrap();
        assert_eq!((found.better, found.differ, found.count), (2, 3, 4));
        assert_eq!(found.sets, [1.5, -0.5]);
        // Three that differ, two of them better: 2 * (1 + 3) / 8, at most 1.
        assert_eq!(found.chance(), 1.0);
        assert_eq!(
            found.told(&|gain| format!("{gain:.1}")),
            "better in 2 of 4 pairs (p 1.00), set by set +1.5, -0.5"
        );
        let lower = Pairs::of(&own, &other, true).unwrap();
        assert_eq!((lower.better, lower.sets), (1, vec![-1.5, 0.5]));
        assert_eq!(Pairs::of(&own, &other[1..], false), None);
        assert_eq!(Pairs::of(&own[..1], &other[1..2], false), None);
    }

    #[test]
    fn the_sign_test_is_exact() {
        let pairs = |better, differ| Pairs {
            better,
            differ,
            count: differ,
            sets: Vec::new(),
        };
        assert!((pairs(10, 10).chance() - 2.0 / 1024.0).abs() < 1e-15);
        assert!((pairs(1, 10).chance() - 22.0 / 1024.0).abs() < 1e-15);
        assert_eq!(pairs(0, 0).chance(), 1.0);
    }
}
