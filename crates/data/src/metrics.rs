//! Evaluation metrics, as the GLUE benchmark defines them.

use std::collections::HashMap;

use crate::batch::IGNORE;

lessen_base::words! {
    /// A metric of predictions against labels; greater is better, but for errors ([`Metric::is_error`]).
    #[derive(Hash)]
    pub enum Metric {
        /// The fraction of predictions that equal their label.
        Accuracy = "accuracy",
        /// The harmonic mean of precision and recall of class 1: `2 tp / (2 tp + fp + fn)`.
        F1 = "f1",
        /// The Matthews correlation coefficient, for any number of classes (Gorodkin 2004).
        Matthews = "matthews",
        /// Pearson's correlation coefficient.
        Pearson = "pearson",
        /// Spearman's correlation coefficient: Pearson's of the ranks, where ties share their mean rank.
        Spearman = "spearman",
        /// The mean squared error.
        Mse = "mse",
        /// The mean absolute error.
        Mae = "mae",
    }
}

impl Metric {
    /// Returns the name in results: lower case, one word.
    pub fn name(self) -> &'static str {
        lessen_base::word::Word::word(self)
    }

    /// Whether less of it is better.
    pub fn is_error(self) -> bool {
        matches!(self, Metric::Mse | Metric::Mae)
    }

    /// Computes the metric; classes are given as whole numbers. The result is 0 if it is undefined (no examples, no
    /// positive class, constant values) or an argument is NaN; an error of NaN is NaN.
    ///
    /// # Panics
    /// If there are not as many predictions as labels.
    pub fn compute(self, predictions: &[f64], labels: &[f64]) -> f64 {
        assert_eq!(predictions.len(), labels.len(), "as many predictions as labels");
        let score = match self {
            Metric::Accuracy => accuracy(predictions, labels),
            Metric::F1 => f1(predictions, labels),
            Metric::Matthews => matthews(predictions, labels),
            Metric::Pearson => pearson(predictions, labels),
            Metric::Spearman => spearman(predictions, labels),
            Metric::Mse => return mean_error(predictions, labels, |error| error * error),
            Metric::Mae => return mean_error(predictions, labels, f64::abs),
        };
        if score.is_finite() { score } else { 0.0 }
    }
}

fn accuracy(predictions: &[f64], labels: &[f64]) -> f64 {
    let right = predictions
        .iter()
        .zip(labels)
        .filter(|(prediction, label)| prediction == label)
        .count();
    right as f64 / labels.len() as f64
}

fn mean_error(predictions: &[f64], labels: &[f64], of: fn(f64) -> f64) -> f64 {
    let errors = predictions
        .iter()
        .zip(labels)
        .map(|(prediction, label)| of(prediction - label));
    errors.sum::<f64>() / labels.len().max(1) as f64
}

fn f1(predictions: &[f64], labels: &[f64]) -> f64 {
    let count = |of: fn(bool, bool) -> bool| {
        predictions
            .iter()
            .zip(labels)
            .filter(|&(&p, &l)| of(p == 1.0, l == 1.0))
            .count() as f64
    };
    let (hits, errors) = (count(|p, l| p && l), count(|p, l| p != l));
    2.0 * hits / (2.0 * hits + errors)
}

/// For `s` examples, `c` correct ones, and class `k` predicted `p_k` times and true `t_k` times:
/// `(c s - sum p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2))`.
fn matthews(predictions: &[f64], labels: &[f64]) -> f64 {
    let mut counts: HashMap<u64, (f64, f64)> = HashMap::new();
    for (prediction, label) in predictions.iter().zip(labels) {
        // Adding 0 merges -0 with 0.
        counts.entry((prediction + 0.0).to_bits()).or_default().0 += 1.0;
        counts.entry((label + 0.0).to_bits()).or_default().1 += 1.0;
    }
    // Sums of whole numbers below 2^53 are exact in any order.
    let sum = |of: fn(&(f64, f64)) -> f64| counts.values().map(of).sum::<f64>();
    let examples = labels.len() as f64;
    let right = predictions
        .iter()
        .zip(labels)
        .filter(|(prediction, label)| prediction == label)
        .count() as f64;
    let covariance = right * examples - sum(|(p, t)| p * t);
    let spread = (examples * examples - sum(|(p, _)| p * p)) * (examples * examples - sum(|(_, t)| t * t));
    covariance / spread.sqrt()
}

fn pearson(a: &[f64], b: &[f64]) -> f64 {
    // The rounded mean of equal values may differ from them, which would give a variance above 0.
    let constant = |values: &[f64]| values.windows(2).all(|pair| pair[0] == pair[1]);
    if constant(a) || constant(b) {
        return f64::NAN;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (x - mean_a, y - mean_b);
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    // The product of two small sums could underflow; that of their roots does not.
    ab / (aa.sqrt() * bb.sqrt())
}

fn spearman(a: &[f64], b: &[f64]) -> f64 {
    // A NaN has no rank.
    if a.iter().chain(b).any(|value| value.is_nan()) {
        return f64::NAN;
    }
    pearson(&ranks(a), &ranks(b))
}

/// Returns ranks from 1; ties share their mean rank.
pub(crate) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    for group in order.chunk_by(|&i, &j| values[i] == values[j]) {
        let mean = start as f64 + (group.len() + 1) as f64 / 2.0;
        group.iter().for_each(|&i| ranks[i] = mean);
        start += group.len();
    }
    ranks
}

/// Counts the rows of `width` positions whose labelled positions are all predicted correctly, and the rows that have a
/// labelled position. Positions labelled [`IGNORE`] do not count.
///
/// # Panics
/// If there are not as many predictions as labels.
pub fn exact_rows(predictions: &[i32], labels: &[i32], width: usize) -> (usize, usize) {
    assert_eq!(predictions.len(), labels.len(), "as many predictions as labels");
    let (mut right, mut rows) = (0, 0);
    for (predictions, labels) in predictions.chunks(width).zip(labels.chunks(width)) {
        let mut wanted = predictions
            .iter()
            .zip(labels)
            .filter(|(_, label)| **label != IGNORE)
            .peekable();
        if wanted.peek().is_some() {
            rows += 1;
            right += usize::from(wanted.all(|(prediction, label)| prediction == label));
        }
    }
    (right, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(metric: Metric, predictions: &[f64], labels: &[f64], expected: f64) {
        let score = metric.compute(predictions, labels);
        assert!(
            (score - expected).abs() < 1e-12,
            "{}: {score} instead of {expected}",
            metric.name()
        );
    }

    #[test]
    fn class_scores_are_those_computed_by_hand() {
        // tp 2, fp 1, fn 1, tn 2.
        let (predictions, labels) = ([1., 1., 1., 0., 0., 0.], [1., 1., 0., 1., 0., 0.]);
        close(Metric::Accuracy, &predictions, &labels, 4.0 / 6.0);
        close(Metric::F1, &predictions, &labels, 4.0 / 6.0);
        // (tp tn - fp fn) / sqrt(3 * 3 * 3 * 3) = 3 / 9.
        close(Metric::Matthews, &predictions, &labels, 1.0 / 3.0);
        let opposite = labels.map(|label| 1.0 - label);
        close(Metric::Matthews, &opposite, &labels, -1.0);
        close(Metric::F1, &opposite, &labels, 0.0);
        // Unequal margins: tp 1, fp 2, fn 0, tn 1; F1 = 2/4, Matthews = 1 / sqrt(3 * 1 * 3 * 1).
        close(Metric::F1, &[1., 1., 1., 0.], &[1., 0., 0., 0.], 0.5);
        close(Metric::Matthews, &[1., 1., 1., 0.], &[1., 0., 0., 0.], 1.0 / 3.0);
        // Three classes: s 4, c 3, sum p t = 1*2 + 1*1 + 2*1 = 5, so 7 / sqrt((16 - 6)(16 - 6)).
        close(Metric::Matthews, &[0., 1., 2., 2.], &[0., 1., 2., 0.], 0.7);
    }

    #[test]
    fn correlations_are_those_computed_by_hand() {
        // Deviations -1.5, -0.5, 0.5, 1.5 and -2, -1, 0, 3.
        let expected = (3.0 + 0.5 + 0.0 + 4.5) / (5.0f64 * 14.0).sqrt();
        close(Metric::Pearson, &[1., 2., 3., 4.], &[1., 2., 3., 6.], expected);
        close(Metric::Spearman, &[1., 2., 3., 4.], &[1., 2., 3., 600.], 1.0);
        close(Metric::Spearman, &[4., 3., 2., 1.], &[1., 2., 3., 600.], -1.0);
        // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: (2.25 + 0 + 0 + 2.25) / sqrt(4.5 * 5).
        close(
            Metric::Spearman,
            &[10., 20., 20., 30.],
            &[1., 2., 3., 4.],
            4.5 / 22.5f64.sqrt(),
        );
    }

    #[test]
    fn errors_are_those_computed_by_hand() {
        let (predictions, labels) = ([1., 2., -3., 0.5], [0., 2., -1., 1.]);
        close(Metric::Mse, &predictions, &labels, (1.0 + 0.0 + 4.0 + 0.25) / 4.0);
        close(Metric::Mae, &predictions, &labels, 3.5 / 4.0);
        assert_eq!(
            (Metric::Mse.compute(&[], &[]), Metric::Mae.compute(&[], &[])),
            (0.0, 0.0)
        );
        assert!(
            Metric::Mse.compute(&[f64::NAN], &[1.0]).is_nan(),
            "no error would be the best"
        );
        assert!(Metric::Mse.is_error() && !Metric::Pearson.is_error());
    }

    #[test]
    fn equal_values_share_the_mean_of_their_ranks() {
        assert_eq!(ranks(&[20., 10., 20., 30., 20.]), [3., 1., 3., 5., 3.]);
        assert_eq!(ranks(&[-0.0, 0.0, -1.0]), [2.5, 2.5, 1.0]);
    }

    #[test]
    fn degenerate_cases_are_zero_not_nan() {
        use Metric::*;
        for metric in [Accuracy, F1, Matthews, Pearson, Spearman] {
            assert_eq!(metric.compute(&[], &[]), 0.0);
        }
        for metric in [F1, Matthews, Pearson, Spearman] {
            assert_eq!(metric.compute(&[0., 0., 0.], &[0., 0., 0.]), 0.0, "{}", metric.name());
        }
        for metric in [Matthews, Pearson, Spearman] {
            assert_eq!(metric.compute(&[2., 2.], &[1., 0.]), 0.0, "{}", metric.name());
        }
        // Their mean is not 0.1.
        for metric in [Pearson, Spearman] {
            assert_eq!(metric.compute(&[0.1; 3], &[0.1; 3]), 0.0, "{}", metric.name());
            assert_eq!(metric.compute(&[0.1; 3], &[1., 2., 3.]), 0.0, "{}", metric.name());
        }
        assert_eq!(Pearson.compute(&[f64::NAN, 1.0], &[0., 1.]), 0.0);
        assert_eq!(Spearman.compute(&[f64::NAN, 1.0], &[0., 1.]), 0.0);
    }

    #[test]
    fn a_row_is_right_when_all_its_labelled_positions_are() {
        let labels = [-100, 1, 2, -100, 3, 4, -100, -100, -100];
        assert_eq!(exact_rows(&[9, 1, 2, 9, 3, 4, 9, 9, 9], &labels, 3), (2, 2));
        assert_eq!(exact_rows(&[9, 1, 2, 9, 3, 5, 9, 9, 9], &labels, 3), (1, 2));
    }
}
