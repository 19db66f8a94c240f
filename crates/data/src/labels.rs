//! Labels of examples.

use crate::label_sets::LabelSets;

/// The labels of examples, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// Class indices; [`IGNORE`](crate::IGNORE) if unknown.
    Classes(Vec<i32>),
    /// Sets of class indices.
    Sets(LabelSets),
    /// Regression targets.
    Scores(Vec<f32>),
}

impl Labels {
    /// Returns the number of labels.
    pub fn len(&self) -> usize {
        match self {
            Labels::Classes(classes) => classes.len(),
            Labels::Sets(sets) => sets.len(),
            Labels::Scores(scores) => scores.len(),
        }
    }

    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number for each example by which a share of the examples is to be even: its class; of several its rarest one.
    pub(crate) fn strata(&self) -> Vec<i32> {
        match self {
            Labels::Classes(classes) => classes.clone(),
            Labels::Sets(sets) => sets.rarest(),
            Labels::Scores(scores) => vec![0; scores.len()],
        }
    }

    /// The number of labels of each class; none where examples have no single class.
    pub fn class_counts(&self, classes: usize) -> Option<Vec<u64>> {
        match self {
            Labels::Classes(labels) => Some(class_counts(labels, classes)),
            Labels::Sets(_) | Labels::Scores(_) => None,
        }
    }

    /// The mean of the scores; none where labels are classes.
    pub fn mean_score(&self) -> Option<f64> {
        match self {
            Labels::Scores(all) => {
                Some(all.iter().map(|score| f64::from(*score)).sum::<f64>() / all.len().max(1) as f64)
            }
            Labels::Classes(_) | Labels::Sets(_) => None,
        }
    }

    /// The labels of the examples for which `chosen` is `wanted`.
    pub(crate) fn part(&self, chosen: &[bool], wanted: bool) -> Labels {
        let is_wanted = |example: &usize| chosen[*example] == wanted;
        let examples = (0..self.len()).filter(is_wanted);
        match self {
            Labels::Classes(classes) => Labels::Classes(examples.map(|example| classes[example]).collect()),
            Labels::Scores(scores) => Labels::Scores(examples.map(|example| scores[example]).collect()),
            Labels::Sets(sets) => {
                let mut part = LabelSets::new(sets.classes());
                examples.for_each(|example| part.push(sets.get(example)));
                Labels::Sets(part)
            }
        }
    }
}

/// The number of labels of each class.
pub fn class_counts(labels: &[i32], classes: usize) -> Vec<u64> {
    let mut counts = vec![0; classes];
    for label in labels {
        if let Some(count) = usize::try_from(*label).ok().and_then(|label| counts.get_mut(label)) {
            *count += 1;
        }
    }
    counts
}

lessen_base::words! {
    /// The problem that labels pose, as transformers names it.
    #[derive(Default)]
    pub enum Problem {
        /// One of several classes.
        #[default]
        SingleLabel = "single_label_classification",
        /// Any of several classes, or none of them.
        MultiLabel = "multi_label_classification",
        /// A number.
        Regression = "regression",
    }
}

/// What the labels of a dataset are.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelKind {
    /// One of these classes; labels are indices into the names.
    Classes(Vec<String>),
    /// Any of these classes; labels are sets of indices into the names.
    Sets(Vec<String>),
    /// A real number (regression).
    Score,
}

impl LabelKind {
    /// What such labels are.
    pub fn problem(&self) -> Problem {
        match self {
            LabelKind::Classes(_) => Problem::SingleLabel,
            LabelKind::Sets(_) => Problem::MultiLabel,
            LabelKind::Score => Problem::Regression,
        }
    }
}
