//! A share of the examples of each class.

use std::collections::BTreeMap;

use lessen_base::SplitMix64;

/// Chooses a share of examples: as many of each class as its own share, drawn by the seed. `classes` has a number for
/// each example. One at least is chosen, and one at least is not.
///
/// Each class in order rounds the sum of its own share and the shares before it, so that the total is right.
pub(crate) fn chosen(classes: &[i32], share: f64, seed: u64) -> Vec<bool> {
    let mut members = BTreeMap::<i32, Vec<usize>>::new();
    for (example, class) in classes.iter().enumerate() {
        members.entry(*class).or_default().push(example);
    }
    let mut chosen = vec![false; classes.len()];
    let total = count_of(classes.len(), share);
    let (mut seen, mut taken) = (0, 0);
    for (number, mut examples) in members.into_values().enumerate() {
        seen += examples.len();
        // Half up, in whole numbers.
        let up_to = (2 * seen as u128 * total as u128 + classes.len() as u128) / (2 * classes.len() as u128);
        let count = (up_to as usize).saturating_sub(taken).min(examples.len());
        SplitMix64::keyed(seed, number as u64).shuffle(&mut examples);
        examples[..count].iter().for_each(|&example| chosen[example] = true);
        taken += count;
    }
    chosen
}

/// The number of examples that a share is: one at least and not all, where there are two.
pub(super) fn count_of(examples: usize, share: f64) -> usize {
    let last = examples.saturating_sub(1);
    ((examples as f64 * share).round() as usize).clamp(1.min(last), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_gives_its_share() {
        let classes: Vec<i32> = (0..1000)
            .map(|i| i32::from(i % 10 == 0) + 7 * i32::from(i % 4 == 1))
            .collect();
        let held = chosen(&classes, 0.1, 1);
        assert_eq!(held.iter().filter(|held| **held).count(), 100);
        for class in [0, 1, 7] {
            let of = |only: &dyn Fn(usize) -> bool| (0..1000).filter(|&i| classes[i] == class && only(i)).count();
            let (all, own) = (of(&|_| true), of(&|i| held[i]));
            assert!((own as f64 - all as f64 * 0.1).abs() <= 1.0, "{own} of {all}");
        }
        assert_eq!(held, chosen(&classes, 0.1, 1));
        assert_ne!(held, chosen(&classes, 0.1, 2));
    }

    #[test]
    fn something_is_left_on_either_side() {
        let count = |examples: usize, share| {
            chosen(&vec![0; examples], share, 1)
                .iter()
                .filter(|held| **held)
                .count()
        };
        assert_eq!(
            [
                count(2, 0.01),
                count(2, 0.99),
                count(3, 0.5),
                count(1, 0.5),
                count(0, 0.5)
            ],
            [1, 1, 2, 0, 0]
        );
        // Every class once.
        let each: Vec<i32> = (0..20).collect();
        assert_eq!(chosen(&each, 0.1, 1).iter().filter(|held| **held).count(), 2);
    }
}
