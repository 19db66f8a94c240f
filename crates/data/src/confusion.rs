//! The confusion matrix, and the scores of each class that follow from it.

/// How often each class was predicted where each class was right.
///
/// ```
/// use lessen_data::Confusion;
///
/// let mut confusion = Confusion::new(vec!["fair".to_string(), "foul".to_string()]);
/// for (label, prediction) in [(0, 0), (0, 0), (0, 1), (1, 1)] {
///     confusion.add(label, prediction);
/// }
/// let foul = confusion.class(1);
/// assert_eq!((foul.precision, foul.recall, foul.support), (0.5, 1.0, 1.0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confusion {
    names: Vec<String>,
    /// Row by row: the label's row, the prediction's column.
    counts: Vec<u64>,
}

/// How well a class is found, or a mean of that over classes. What is undefined (a class that was never predicted has
/// no precision) is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassScores {
    /// Of the examples for which the class was predicted, the share that has it.
    pub precision: f64,
    /// Of the examples that have the class, the share for which it was predicted.
    pub recall: f64,
    /// The harmonic mean of precision and recall.
    pub f1: f64,
    /// The number of examples that have the class.
    pub support: f64,
}

impl Confusion {
    /// No predictions of these classes yet.
    pub fn new(names: Vec<String>) -> Confusion {
        let counts = vec![0; names.len() * names.len()];
        Confusion { names, counts }
    }

    /// Counts a prediction. Numbers that are no classes are left out.
    pub fn add(&mut self, label: usize, prediction: usize) {
        let classes = self.names.len();
        if label < classes && prediction < classes {
            self.counts[label * classes + prediction] += 1;
        }
    }

    /// The names of the classes.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The matrix: a row for each class that was right, with a count for each class that was predicted.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[u64]> {
        self.counts.chunks_exact(self.names.len().max(1))
    }

    /// The scores of a class.
    ///
    /// # Panics
    /// If there is no such class.
    pub fn class(&self, class: usize) -> ClassScores {
        let row = self.rows().nth(class).expect("a class of the matrix");
        let predicted = self.rows().map(|row| row[class]).sum();
        ClassScores::of(row[class], predicted, row.iter().sum())
    }

    /// The scores of all classes, in order.
    pub fn classes(&self) -> impl Iterator<Item = ClassScores> {
        (0..self.names.len()).map(|class| self.class(class))
    }

    /// The share of the examples that the most frequent class has.
    pub fn majority(&self) -> f64 {
        let of_class = self.rows().map(|row| row.iter().sum::<u64>() as f64);
        let (most, all) = of_class.fold((0.0, 0.0), |(most, all), own| (f64::max(most, own), all + own));
        share(most, all)
    }

    /// The share of the examples whose class was predicted; 0 of none.
    pub fn accuracy(&self) -> f64 {
        self.micro().recall
    }

    /// The scores over all examples together. Each has one class and one prediction, so that precision, recall and F1
    /// are the accuracy.
    pub fn micro(&self) -> ClassScores {
        let hits = self.rows().enumerate().map(|(class, row)| row[class]).sum();
        let all = self.counts.iter().sum();
        ClassScores::of(hits, all, all)
    }

    /// The mean over classes, each with the same weight.
    pub fn mean(&self) -> ClassScores {
        ClassScores::mean_by(self.classes(), |_| 1.0)
    }

    /// The mean over classes, each weighted by its support.
    pub fn weighted_mean(&self) -> ClassScores {
        ClassScores::mean_by(self.classes(), |class| class.support)
    }
}

impl ClassScores {
    /// The scores of a class that was predicted for `predicted` examples; `hits` of them have it, and `support`
    /// examples have.
    pub(crate) fn of(hits: u64, predicted: u64, support: u64) -> ClassScores {
        let (hits, predicted, support) = (hits as f64, predicted as f64, support as f64);
        ClassScores {
            precision: share(hits, predicted),
            recall: share(hits, support),
            f1: share(2.0 * hits, predicted + support),
            support,
        }
    }

    /// The mean of classes by their weights, with the sum of their supports.
    pub(crate) fn mean_by(
        classes: impl Iterator<Item = ClassScores>,
        weight: impl Fn(&ClassScores) -> f64,
    ) -> ClassScores {
        let (mut mean, mut total) = (ClassScores::default(), 0.0);
        for class in classes {
            let own = weight(&class);
            mean.precision += own * class.precision;
            mean.recall += own * class.recall;
            mean.f1 += own * class.f1;
            mean.support += class.support;
            total += own;
        }
        ClassScores {
            precision: share(mean.precision, total),
            recall: share(mean.recall, total),
            f1: share(mean.f1, total),
            support: mean.support,
        }
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confusion(counts: &[&[u64]]) -> Confusion {
        let mut confusion = Confusion::new((0..counts.len()).map(|class| class.to_string()).collect());
        for (label, row) in counts.iter().enumerate() {
            for (prediction, &count) in row.iter().enumerate() {
                (0..count).for_each(|_| confusion.add(label, prediction));
            }
        }
        confusion
    }

    #[test]
    fn the_scores_are_those_computed_by_hand() {
        let found = confusion(&[&[3, 1, 0], &[2, 2, 0], &[1, 0, 1]]);
        assert_eq!(found.rows().collect::<Vec<_>>(), [[3, 1, 0], [2, 2, 0], [1, 0, 1]]);
        let scores = |precision: f64, recall: f64, support: f64| ClassScores {
            precision,
            recall,
            f1: 2.0 * precision * recall / (precision + recall),
            support,
        };
        let expected = [
            scores(3.0 / 6.0, 3.0 / 4.0, 4.0),
            scores(2.0 / 3.0, 2.0 / 4.0, 4.0),
            scores(1.0, 1.0 / 2.0, 2.0),
        ];
        for (found, expected) in found.classes().zip(expected) {
            assert!((found.f1 - expected.f1).abs() < 1e-15);
            assert_eq!(ClassScores { f1: 0.0, ..found }, ClassScores { f1: 0.0, ..expected });
        }
        let (mean, weighted) = (found.mean(), found.weighted_mean());
        assert!((mean.precision - (0.5 + 2.0 / 3.0 + 1.0) / 3.0).abs() < 1e-15);
        assert!((weighted.recall - 6.0 / 10.0).abs() < 1e-15, "it is the accuracy");
        assert_eq!((mean.support, weighted.support), (10.0, 10.0));
    }

    #[test]
    fn what_is_undefined_is_zero() {
        let found = confusion(&[&[0, 2], &[0, 0]]);
        assert_eq!(found.class(0).recall, 0.0);
        assert_eq!((found.class(0).precision, found.class(1).recall), (0.0, 0.0));
        assert_eq!(confusion(&[&[0, 0], &[0, 0]]).weighted_mean(), ClassScores::default());
    }

    #[test]
    fn what_is_no_class_does_not_count() {
        let mut confusion = confusion(&[&[1, 0], &[0, 1]]);
        confusion.add(2, 0);
        confusion.add(0, 2);
        assert_eq!(confusion.mean().support, 2.0);
    }
}
