//! Metrics of scores against labels: of the logits or probabilities that a classifier gives, row by row.
//!
//! `scores` are `f32[rows, classes]` in row-major order, `labels` are `i32[rows]`; rows labelled [`IGNORE`] do not
//! count. Precision, recall and F1 follow from [`confusion`].
//!
//! ```
//! use lessen_data::scores::{confusion, roc_auc, top_k_accuracy};
//!
//! let scores = [0.7, 0.2, 0.1, 0.3, 0.3, 0.4, 0.1, 0.3, 0.6];
//! let labels = [0, 1, 1];
//! let confusion = confusion(&scores, &labels, 3)?;
//! assert_eq!((confusion.accuracy(), confusion.class(0).precision), (1.0 / 3.0, 1.0));
//! assert_eq!(top_k_accuracy(&scores, &labels, 3, 2)?, 2.0 / 3.0);
//! assert_eq!(roc_auc(&[0.9, 0.4, 0.4, 0.1], &[1, 1, 0, 0])?, 0.875);
//! # Ok::<(), lessen_data::Error>(())
//! ```

use lessen_base::{Error, Result};

use crate::batch::IGNORE;
use crate::confusion::Confusion;
use crate::metrics::ranks;

/// The class with the greatest score of each row, the first of equal ones.
///
/// # Errors
/// No classes; scores that are not one for each class of each row, or NaN.
pub fn predictions(scores: &[f32], classes: usize) -> Result<Vec<usize>> {
    if classes == 0 || !scores.len().is_multiple_of(classes) {
        return Err(Error::user(format!(
            "{} scores cannot be rows of {classes} classes; give a score for each class of each row",
            scores.len()
        )));
    }
    let rows = scores.chunks_exact(classes).enumerate();
    rows.map(|(number, row)| {
        check_numbers(row).map_err(|error| error.at(format!("row {number}")))?;
        let better = |best: usize, class: usize| if row[class] > row[best] { class } else { best };
        Ok((0..classes).fold(0, better))
    })
    .collect()
}

/// The confusion matrix of the predicted classes, which are called by their numbers.
///
/// # Errors
/// As [`predictions`]; labels that are not one for each row, or no class; no row with a label.
pub fn confusion(scores: &[f32], labels: &[i32], classes: usize) -> Result<Confusion> {
    labelled_rows(scores, labels, classes)?;
    let mut confusion = Confusion::new((0..classes).map(|class| class.to_string()).collect());
    for (predicted, label) in predictions(scores, classes)?.into_iter().zip(labels) {
        if let Ok(label) = usize::try_from(*label) {
            confusion.add(label, predicted);
        }
    }
    Ok(confusion)
}

/// The share of rows whose label is among the `k` greatest scores. Of equal scores the first class is the greater one,
/// so that `k = 1` is the accuracy of [`predictions`].
///
/// # Errors
/// As [`confusion`], and a `k` of 0 or above the number of classes.
pub fn top_k_accuracy(scores: &[f32], labels: &[i32], classes: usize, k: usize) -> Result<f64> {
    if !(1..=classes).contains(&k) {
        return Err(Error::user(format!(
            "the best {k} of {classes} classes make no sense; choose a number from 1 to {classes}"
        )));
    }
    let rows = labelled_rows(scores, labels, classes)?;
    let is_found = |(row, label): &(&[f32], usize)| {
        let own = row[*label];
        let before = row[..*label].iter().filter(|score| **score >= own).count();
        let after = row[*label..].iter().filter(|score| **score > own).count();
        before + after < k
    };
    Ok(rows.iter().filter(|row| is_found(row)).count() as f64 / rows.len() as f64)
}

/// The area under the receiver operating characteristic of two classes: the probability that a row of class 1 has a
/// greater score than a row of class 0, where equal scores count one half. `scores` are `f32[rows]`, those of class 1;
/// any increasing function of them gives the same area.
///
/// # Errors
/// Scores and labels that are not as many; a score that is NaN, a label other than 0, 1 and [`IGNORE`]; a class without
/// a row.
pub fn roc_auc(scores: &[f32], labels: &[i32]) -> Result<f64> {
    check_labels(labels, scores.len(), 2)?;
    check_numbers(scores)?;
    let labelled = scores.iter().zip(labels).filter(|(_, label)| **label != IGNORE);
    let (scores, labels): (Vec<f64>, Vec<i32>) = labelled.map(|(score, label)| (f64::from(*score), *label)).unzip();
    let ones = labels.iter().filter(|label| **label == 1).count();
    let zeros = labels.len() - ones;
    if ones == 0 || zeros == 0 {
        return Err(Error::user(format!(
            "the area under a curve needs rows of both classes, but class {} has none; evaluate more rows",
            usize::from(ones == 0)
        )));
    }
    // The statistic of Mann and Whitney: the sum of the ranks of class 1, without what it is at least.
    let of_ones = ranks(&scores)
        .into_iter()
        .zip(&labels)
        .filter(|(_, label)| **label == 1);
    let (sum, ones) = (of_ones.map(|(rank, _)| rank).sum::<f64>(), ones as f64);
    Ok((sum - ones * (ones + 1.0) / 2.0) / (ones * zeros as f64))
}

/// The mean of `-ln softmax(row)[label]` over the rows of logits, in nats.
///
/// # Errors
/// As [`confusion`].
pub fn cross_entropy(logits: &[f32], labels: &[i32], classes: usize) -> Result<f64> {
    let rows = labelled_rows(logits, labels, classes)?;
    let loss = |(row, label): &(&[f32], usize)| {
        let most = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = row.iter().map(|logit| (f64::from(*logit) - most).exp()).sum();
        most + sum.ln() - f64::from(row[*label])
    };
    Ok(rows.iter().map(loss).sum::<f64>() / rows.len() as f64)
}

/// The perplexity of logits: `exp` of their [`cross_entropy`], the number of classes among which an equal choice would
/// be as uncertain.
///
/// # Errors
/// As [`confusion`].
pub fn perplexity(logits: &[f32], labels: &[i32], classes: usize) -> Result<f64> {
    Ok(cross_entropy(logits, labels, classes)?.exp())
}

/// The rows that have a label, with it.
fn labelled_rows<'a>(scores: &'a [f32], labels: &[i32], classes: usize) -> Result<Vec<(&'a [f32], usize)>> {
    if labels.len().checked_mul(classes) != Some(scores.len()) {
        return Err(Error::user(format!(
            "{} scores for {} labels of {classes} classes; give a score for each class of each label",
            scores.len(),
            labels.len()
        )));
    }
    check_labels(labels, labels.len(), classes)?;
    let mut rows = Vec::with_capacity(labels.len());
    for (number, (row, label)) in scores.chunks_exact(classes.max(1)).zip(labels).enumerate() {
        check_numbers(row).map_err(|error| error.at(format!("row {number}")))?;
        if let Ok(label) = usize::try_from(*label) {
            rows.push((row, label));
        }
    }
    if rows.is_empty() {
        return Err(Error::user(
            "no row has a label, so nothing can be scored; give at least one",
        ));
    }
    Ok(rows)
}

/// Refuses labels that are not as many as the rows, or no classes.
fn check_labels(labels: &[i32], rows: usize, classes: usize) -> Result<()> {
    if labels.len() != rows {
        return Err(Error::user(format!(
            "{rows} rows of scores, but {} labels; give one for each row",
            labels.len()
        )));
    }
    let is_class = |label: i32| usize::try_from(label).is_ok_and(|class| class < classes);
    match labels.iter().position(|&label| label != IGNORE && !is_class(label)) {
        None => Ok(()),
        Some(row) => Err(Error::user(format!(
            "row {row} has the label {}, but there are {classes} classes; labels are from 0 to below that, or {IGNORE} \
             for rows that do not count",
            labels[row]
        ))),
    }
}

/// Refuses a score that is NaN, which has no order.
fn check_numbers(scores: &[f32]) -> Result<()> {
    match scores.iter().position(|score| score.is_nan()) {
        None => Ok(()),
        Some(at) => Err(Error::user(format!(
            "score {at} is NaN; see where the model's values stop being numbers"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores of three classes, and labels of which the third does not count.
    const SCORES: [f32; 15] = [
        0.7, 0.2, 0.1, 0.3, 0.3, 0.4, 0.9, 0.1, 0.0, 0.1, 0.3, 0.6, 0.3, 0.5, 0.2,
    ];
    const LABELS: [i32; 5] = [0, 1, IGNORE, 2, 0];

    #[test]
    fn predictions_are_the_first_of_the_greatest_scores() {
        assert_eq!(predictions(&SCORES, 3), Ok(vec![0, 2, 0, 2, 1]));
        assert_eq!(predictions(&[1.0, 1.0, f32::NEG_INFINITY, 0.0], 2), Ok(vec![0, 1]));
    }

    #[test]
    fn precision_recall_and_f1_are_those_of_scikit_learn() {
        // True 0 1 2 0, predicted 0 2 2 1: tp 1 0 1, predicted 1 1 2, support 2 1 1.
        let found = confusion(&SCORES, &LABELS, 3).unwrap();
        assert_eq!(found.rows().collect::<Vec<_>>(), [[1, 1, 0], [0, 0, 1], [0, 0, 1]]);
        assert_eq!(found.accuracy(), 0.5);
        let f1 = [2.0 / 3.0, 0.0, 2.0 / 3.0];
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-15, "{found} for {expected}");
        close(found.mean().f1, f1.iter().sum::<f64>() / 3.0);
        close(found.weighted_mean().f1, (2.0 * f1[0] + f1[1] + f1[2]) / 4.0);
        close(found.mean().precision, (1.0 + 0.0 + 0.5) / 3.0);
        close(found.mean().recall, (0.5 + 0.0 + 1.0) / 3.0);
        let micro = found.micro();
        assert_eq!(
            (micro.precision, micro.recall, micro.f1, micro.support),
            (0.5, 0.5, 0.5, 4.0)
        );
    }

    #[test]
    fn the_best_k_grow_with_k_and_the_best_one_is_the_prediction() {
        // The label's ranks: 1, 3 (a tie with class 0, which is first), 1, 2.
        let found = [1, 2, 3].map(|k| top_k_accuracy(&SCORES, &LABELS, 3, k).unwrap());
        assert_eq!(found, [0.5, 0.75, 1.0]);
        assert_eq!(found[0], confusion(&SCORES, &LABELS, 3).unwrap().accuracy());
    }

    #[test]
    fn the_area_is_the_share_of_pairs_in_order() {
        // scikit-learn's example: roc_auc_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).
        assert_eq!(roc_auc(&[0.1, 0.4, 0.35, 0.8], &[0, 0, 1, 1]), Ok(0.75));
        assert_eq!(roc_auc(&[0.5; 4], &[0, 1, 0, 1]), Ok(0.5));
        assert_eq!(roc_auc(&[3.0, 9.0, 1.0, 2.0], &[1, IGNORE, 0, 0]), Ok(1.0));
        assert_eq!(roc_auc(&[0.0, 1.0], &[1, 0]), Ok(0.0));
        // By pairs, of scores with many ties.
        let scores: Vec<f32> = (0..60).map(|i| (i * 37 % 11) as f32).collect();
        let labels: Vec<i32> = (0..60).map(|i| i * 53 % 7 % 2).collect();
        let (mut pairs, mut won) = (0.0, 0.0);
        for (a, _) in scores.iter().zip(&labels).filter(|(_, label)| **label == 1) {
            for (b, _) in scores.iter().zip(&labels).filter(|(_, label)| **label == 0) {
                pairs += 1.0;
                won += if a > b {
                    1.0
                } else if a == b {
                    0.5
                } else {
                    0.0
                };
            }
        }
        assert!((roc_auc(&scores, &labels).unwrap() - won / pairs).abs() < 1e-15);
    }

    #[test]
    fn perplexity_is_the_exponential_of_the_cross_entropy() {
        assert!((perplexity(&[0.0; 8], &[0, 3], 4).unwrap() - 4.0).abs() < 1e-12);
        // Probabilities 3/4 and 1/4 of the labels: exp(-(ln 3/4 + ln 1/4) / 2).
        let logits = [3.0f32.ln(), 0.0, 9.0, 9.0, 1000.0 + 3.0f32.ln(), 1000.0];
        let found = perplexity(&logits, &[0, IGNORE, 1], 2).unwrap();
        assert!((found - 1.0 / (3.0f64 / 16.0).sqrt()).abs() < 1e-3, "{found}");
        assert_eq!(perplexity(&[0.0, f32::NEG_INFINITY], &[1], 2), Ok(f64::INFINITY));
    }

    #[test]
    fn a_mistake_is_a_sentence_with_its_row() {
        let of = |scores: &[f32], labels: &[i32]| confusion(scores, labels, 2).unwrap_err().to_string();
        for (sentence, part) in [
            (of(&[0.0; 3], &[0, 1]), "3 scores for 2 labels of 2 classes"),
            (of(&[0.0; 4], &[0, 2]), "row 1 has the label 2"),
            (of(&[0.0; 4], &[-1, 0]), "row 0 has the label -1"),
            (of(&[0.0, 0.0, 0.0, f32::NAN], &[0, 1]), "row 1: score 1 is NaN"),
            (of(&[0.0; 2], &[IGNORE]), "no row has a label"),
            (of(&[], &[]), "no row has a label"),
            (
                top_k_accuracy(&[0.0; 2], &[0], 2, 3).unwrap_err().to_string(),
                "the best 3 of 2",
            ),
            (
                predictions(&[0.0; 3], 0).unwrap_err().to_string(),
                "3 scores cannot be rows of 0",
            ),
            (roc_auc(&[0.0], &[0]).unwrap_err().to_string(), "class 1 has none"),
            (
                roc_auc(&[0.0, f32::NAN], &[0, 1]).unwrap_err().to_string(),
                "score 1 is NaN",
            ),
            (roc_auc(&[0.0; 2], &[1, 1]).unwrap_err().to_string(), "class 0 has none"),
            (
                roc_auc(&[0.0; 2], &[1]).unwrap_err().to_string(),
                "2 rows of scores, but 1 labels",
            ),
            (
                roc_auc(&[0.0; 2], &[1, 2]).unwrap_err().to_string(),
                "row 1 has the label 2",
            ),
        ] {
            assert!(sentence.contains(part), "{sentence} without {part}");
        }
    }
}
