//! How well the labels of texts that can have several of them are found.

use crate::confusion::ClassScores;

/// How often each label was predicted, was right, and both; and how often all labels of a text were right.
///
/// ```
/// use lessen_data::LabelCounts;
///
/// let mut counts = LabelCounts::new(vec!["rude".to_string(), "spam".to_string()]);
/// counts.add(&[true, false], &[true, true]);
/// counts.add(&[false, true], &[false, true]);
/// assert_eq!((counts.class(1).precision, counts.class(1).recall), (0.5, 1.0));
/// assert_eq!((counts.micro().precision, counts.subset_accuracy()), (2.0 / 3.0, 0.5));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelCounts {
    names: Vec<String>,
    /// Of each label: predicted and right, predicted, right.
    counts: Vec<[u64; 3]>,
    examples: u64,
    whole: u64,
}

impl LabelCounts {
    /// The names of the scores of an evaluation, the one that decides first: [`LabelCounts::micro`] F1,
    /// [`LabelCounts::mean`] F1, [`LabelCounts::subset_accuracy`].
    pub const SCORES: [&str; 3] = ["micro_f1", "macro_f1", "subset_accuracy"];

    /// No predictions of these labels yet.
    pub fn new(names: Vec<String>) -> LabelCounts {
        LabelCounts {
            counts: vec![[0; 3]; names.len()],
            names,
            examples: 0,
            whole: 0,
        }
    }

    /// Counts a text: which labels it has, and which were predicted.
    ///
    /// # Panics
    /// If there is not one of both for each label.
    pub fn add(&mut self, labels: &[bool], predicted: &[bool]) {
        let all = self.counts.len();
        assert_eq!((labels.len(), predicted.len()), (all, all), "one for each label");
        for ((counts, &label), &predicted) in self.counts.iter_mut().zip(labels).zip(predicted) {
            counts[0] += u64::from(label && predicted);
            counts[1] += u64::from(predicted);
            counts[2] += u64::from(label);
        }
        self.examples += 1;
        self.whole += u64::from(labels == predicted);
    }

    /// The names of the labels.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The scores of a label.
    ///
    /// # Panics
    /// If there is no such label.
    pub fn class(&self, class: usize) -> ClassScores {
        let [hits, predicted, support] = self.counts[class];
        ClassScores::of(hits, predicted, support)
    }

    /// The scores of all labels, in order.
    pub fn classes(&self) -> impl Iterator<Item = ClassScores> {
        (0..self.counts.len()).map(|class| self.class(class))
    }

    /// The scores over all labels of all texts together: every label of a text counts once.
    pub fn micro(&self) -> ClassScores {
        let sum = |of: usize| self.counts.iter().map(|counts| counts[of]).sum();
        ClassScores::of(sum(0), sum(1), sum(2))
    }

    /// The mean over labels, each with the same weight.
    pub fn mean(&self) -> ClassScores {
        ClassScores::mean_by(self.classes(), |_| 1.0)
    }

    /// The mean over labels, each weighted by its support.
    pub fn weighted_mean(&self) -> ClassScores {
        ClassScores::mean_by(self.classes(), |class| class.support)
    }

    /// The share of texts all of whose labels, and no others, were predicted; 0 of none.
    pub fn subset_accuracy(&self) -> f64 {
        self.whole as f64 / self.examples.max(1) as f64
    }

    /// The scores of an evaluation by their names.
    pub fn scores(&self) -> [(&'static str, f64); 3] {
        let values = [self.micro().f1, self.mean().f1, self.subset_accuracy()];
        std::array::from_fn(|i| (LabelCounts::SCORES[i], values[i]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scores_are_those_computed_by_hand() {
        let mut counts = LabelCounts::new(["a", "b", "c"].map(str::to_string).to_vec());
        let (yes, no) = (true, false);
        counts.add(&[yes, yes, no], &[yes, no, no]);
        counts.add(&[yes, no, no], &[yes, no, no]);
        counts.add(&[no, yes, no], &[yes, yes, no]);
        counts.add(&[no, no, no], &[no, no, no]);
        // a: 2 of 3 predicted, 2 of 2 found; b: 1 of 1, 1 of 2; c: never predicted, nowhere right.
        let f1 = [2.0 * 2.0 / 5.0, 2.0 / 3.0, 0.0];
        let found: Vec<f64> = counts.classes().map(|class| class.f1).collect();
        assert_eq!(found, f1);
        assert_eq!(
            (counts.micro().precision, counts.micro().recall),
            (3.0 / 4.0, 3.0 / 4.0)
        );
        assert_eq!(counts.micro().support, 4.0);
        assert!((counts.mean().f1 - f1.iter().sum::<f64>() / 3.0).abs() < 1e-15);
        assert!((counts.weighted_mean().f1 - (f1[0] + f1[1]) / 2.0).abs() < 1e-15);
        assert_eq!(counts.subset_accuracy(), 0.5);
        assert_eq!(counts.scores()[0], ("micro_f1", 0.75));
    }

    #[test]
    fn nothing_scores_nothing() {
        let counts = LabelCounts::new(vec!["a".to_string()]);
        assert_eq!(counts.scores().map(|(_, score)| score), [0.0; 3]);
    }
}
