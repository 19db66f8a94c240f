//! Spearman's rank correlation.

/// Spearman's correlation of the ranks of pairs of numbers; equal numbers share the mean of their ranks. `None` where
/// all numbers of a side are equal, and of fewer than two pairs.
///
/// # Panics
/// If there are more numbers on one side.
pub fn rank_correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    assert_eq!(a.len(), b.len(), "ranks of pairs");
    let [a, b] = [a, b].map(centred_ranks);
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let size = product(&a, &a) * product(&b, &b);
    (size > 0.0).then(|| product(&a, &b) / size.sqrt())
}

/// The ranks of numbers, less their mean.
fn centred_ranks(numbers: &[f64]) -> Vec<f64> {
    let of = |number: &f64| {
        let below = numbers.iter().filter(|other| *other < number).count();
        let equal = numbers.iter().filter(|other| *other == number).count();
        below as f64 + (equal as f64 - 1.0) / 2.0
    };
    let mean = (numbers.len() as f64 - 1.0) / 2.0;
    numbers.iter().map(|number| of(number) - mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_are_exact() {
        let a = [3.0, 1.0, 4.0, 2.0];
        assert_eq!(rank_correlation(&a, &[30.0, 1.0, 31.0, 2.0]), Some(1.0));
        assert_eq!(rank_correlation(&a, &[-3.0, -1.0, -4.0, -2.0]), Some(-1.0));
        // 1 - 6 (1 + 1) / (4 (16 - 1)), as two neighbours change places.
        let swapped = rank_correlation(&a, &[3.0, 2.0, 4.0, 1.0]).expect("ranks");
        assert!((swapped - 0.8).abs() < 1e-12);
    }

    #[test]
    fn equal_numbers_share_their_ranks() {
        assert_eq!(centred_ranks(&[5.0, 1.0, 5.0, 0.0]), [1.0, -0.5, 1.0, -1.5]);
        // scipy.stats.spearmanr([1, 2, 2, 3, 5], [5, 6, 7, 8, 7]) = 0.7631578947368420.
        let found = rank_correlation(&[1.0, 2.0, 2.0, 3.0, 5.0], &[5.0, 6.0, 7.0, 8.0, 7.0]);
        assert!(
            (found.expect("ranks") - 0.763_157_894_736_842).abs() < 1e-12,
            "{found:?}"
        );
    }

    #[test]
    fn nothing_is_said_of_equal_or_too_few_numbers() {
        assert_eq!(rank_correlation(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(rank_correlation(&[1.0], &[2.0]), None);
        assert_eq!(rank_correlation(&[], &[]), None);
    }
}
