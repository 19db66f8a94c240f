//! Whole groups of rows.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use lessen_base::SplitMix64;

use super::share::count_of;

/// The groups of rows, numbered in the order in which they first occur. Of values hashes alone are kept.
#[derive(Debug, Default)]
pub(super) struct Groups {
    numbers: HashMap<u64, usize>,
    of_rows: Vec<usize>,
}

impl Groups {
    /// Adds a row with this value. Rows without a value are a group, too.
    pub(super) fn add(&mut self, value: &str) {
        let mut hasher = DefaultHasher::new();
        value.trim().hash(&mut hasher);
        let next = self.numbers.len();
        self.of_rows.push(*self.numbers.entry(hasher.finish()).or_insert(next));
    }

    /// The number of groups.
    pub(super) fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Chooses groups in an order drawn by the seed, each where it brings the number of rows nearer to the share; one
    /// at least is chosen, the smallest where all are far larger than the share, and one at least is not. Gives the
    /// rows and the number of groups.
    pub(super) fn chosen(&self, share: f64, seed: u64) -> (Vec<bool>, usize) {
        let mut sizes = vec![0usize; self.count()];
        self.of_rows.iter().for_each(|group| sizes[*group] += 1);
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        SplitMix64::keyed(seed, 0).shuffle(&mut order);
        let (wanted, most) = (count_of(self.of_rows.len(), share), sizes.len().saturating_sub(1));
        let (mut is_chosen, mut rows, mut groups) = (vec![false; sizes.len()], 0usize, 0);
        for &group in &order {
            let with = rows + sizes[group];
            if groups < most && with.abs_diff(wanted) < rows.abs_diff(wanted) {
                (is_chosen[group], rows, groups) = (true, with, groups + 1);
            }
        }
        let smallest = order.iter().min_by_key(|group| sizes[**group]);
        if let Some(&group) = smallest.filter(|_| groups == 0 && most > 0) {
            (is_chosen[group], groups) = (true, 1);
        }
        (self.of_rows.iter().map(|group| is_chosen[*group]).collect(), groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The values that are held out and those that are not, and the number of rows that are.
    fn split(values: &[String], share: f64, seed: u64) -> (BTreeSet<String>, BTreeSet<String>, usize) {
        let mut groups = Groups::default();
        values.iter().for_each(|value| groups.add(value));
        let (held, count) = groups.chosen(share, seed);
        let of = |wanted: bool| {
            let both = values.iter().zip(&held).filter(|(_, held)| **held == wanted);
            both.map(|(value, _)| value.trim().to_string()).collect()
        };
        let own: BTreeSet<String> = of(true);
        assert_eq!(own.len(), count);
        (own, of(false), held.iter().filter(|held| **held).count())
    }

    #[test]
    fn no_group_is_on_both_sides_and_the_share_is_met() {
        // Groups of 1 to 9 rows, which lie apart; a value is the same with white space around it.
        let values: Vec<String> = (0..450)
            .map(|i| format!("u{}{}", i * i % 97, " ".repeat(i % 2)))
            .collect();
        for seed in 1..20 {
            let (held, kept, rows) = split(&values, 0.2, seed);
            assert!(held.is_disjoint(&kept) && !held.is_empty() && !kept.is_empty());
            assert!(rows.abs_diff(90) <= 9, "{rows}");
        }
        assert_eq!(split(&values, 0.2, 1), split(&values, 0.2, 1));
        assert_ne!(split(&values, 0.2, 1), split(&values, 0.2, 2));
    }

    #[test]
    fn a_group_is_left_on_either_side() {
        let values = |sizes: &[usize]| -> Vec<String> {
            let of = |(group, size): (usize, &usize)| vec![format!("g{group}"); *size];
            sizes.iter().enumerate().flat_map(of).collect()
        };
        let rows = |sizes: &[usize], share: f64| split(&values(sizes), share, 3).2;
        assert_eq!(rows(&[50, 50], 0.01), 50);
        assert_eq!(rows(&[50, 50], 0.99), 50);
        // The large group is no share of a tenth.
        assert_eq!(rows(&[90, 10], 0.1), 10);
        assert_eq!(rows(&[900, 300, 400], 0.01), 300);
        // Rows without a value are a group of their own.
        let (held, kept, _) = split(&["a".to_string(), String::new(), " ".to_string()], 0.3, 1);
        assert_eq!(held.len() + kept.len(), 2);
    }
}
