//! The cross entropy of a model, of its logits or of normalized logits, and how labels count in training.

use std::fmt;
use std::str::FromStr;

use lessen_base::{Error, Result};
use lessen_graph::ops::attention::Weighting;
use lessen_graph::ops::temperature::Temperature;
use lessen_graph::{Array, DType, Tensor};

use crate::context::Cx;
use crate::criterion::Criterion;

/// The label that the loss leaves out.
const IGNORE: i64 = -100;

/// The softmax in the cross entropy of a classifier or language model, and so in the probabilities that it predicts.
///
/// Its words are the words of [`Weighting`] for a softmax without a learned weight, such as `norm_softmax:gamma=inf`.
/// With `gamma = 1` logits are divided by their deviation where it is below 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Loss {
    /// Of the logits themselves.
    #[default]
    Softmax,
    /// Of logits divided by a temperature that follows from them; see [`Tensor::norm_logits`].
    Norm(Temperature),
}

impl Loss {
    /// All words, for messages.
    pub fn words() -> String {
        "softmax, norm_softmax and logit_norm; after a colon and separated by commas, norm_softmax takes gamma=NUMBER or \
         floor=NUMBER and tau=NUMBER, logit_norm takes tau=NUMBER"
            .to_string()
    }

    /// The arguments of softmax. A single logit is the prediction of a regression and stays unchanged.
    #[track_caller]
    pub fn normalize(self, logits: Tensor) -> Tensor {
        match self {
            Loss::Norm(temperature) if logits.dim(-1) > 1 => logits.norm_logits(temperature),
            _ => logits,
        }
    }
}

/// The cross entropy of logits `[.., V]` with labels `i32[..]`, `f32[]`: the mean over the rows whose label is not
/// -100, as the context's [`Criterion`] says, by `own` weights of the rows (`f32[..]`) where there are some; 0 if there
/// are none.
///
/// # Panics
/// If there are class weights, but not `V` of them.
#[track_caller]
pub(crate) fn cross_entropy(cx: Cx, logits: Tensor, labels: Tensor, own: Option<Tensor>) -> Tensor {
    let criterion = cx.criterion();
    let smoothing = criterion.smoothing;
    let weights = match (&criterion.class_weights, own) {
        (None, None) => return logits.cross_entropy_with(labels, IGNORE, smoothing),
        (Some(weights), _) => weights.clone(),
        (None, Some(_)) => vec![1.0; logits.dim(-1)],
    };
    check_weights(&weights, logits);
    let weights = constant(cx, &weights);
    let counts = labels.ne(labels.scalar_like(IGNORE as f64));
    // A row without a label counts with weight 0; it reads the weight of the first class.
    let of_rows = weights.gather(labels.maximum(labels.scalar_like(0.0)));
    let mut of_rows = of_rows * counts.cast(DType::F32);
    if let Some(own) = own {
        of_rows = of_rows * own;
    }
    let mut losses = logits.cross_entropy_rows(labels, IGNORE, 0.0) * of_rows;
    if smoothing != 0.0 {
        let mut of_classes = smoothed(logits.log_softmax().cast(DType::F32), weights, smoothing);
        if let Some(own) = own {
            of_classes = of_classes * own;
        }
        losses = losses * (1.0 - smoothing) + counts.select(of_classes, of_classes.scalar_like(0.0));
    }
    losses.sum() / or_one(of_rows.sum())
}

/// The part of the loss that smoothing spreads over all classes, for each row: `-s / V sum_c w[c] ln p[c]`.
fn smoothed(log_p: Tensor, weights: Tensor, smoothing: f64) -> Tensor {
    let classes = log_p.dim(-1);
    let rows = log_p.shape()[..log_p.rank() - 1].to_vec();
    (log_p * weights).sum_last().reshape(&rows) * (-smoothing / classes as f64)
}

/// The cross entropy of logits `[B, V]` where rows have shares of several classes, `targets` (`f32[B, V]`, rows that
/// add up to 1), as mixup and CutMix make them: the mean over rows by `weights` (`f32[B]`) of `-sum_c t_c ln p_c`, with
/// the smoothing and the weight of each class that the context's [`Criterion`] says. Of rows with a single class it is
/// [`cross_entropy`].
///
/// # Panics
/// If there are class weights, but not `V` of them.
#[track_caller]
pub(crate) fn cross_entropy_of_shares(cx: Cx, logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor {
    let Criterion {
        smoothing,
        class_weights,
        ..
    } = &*cx.criterion();
    let log_p = logits.log_softmax();
    let shares = targets * weights.unsqueeze(-1);
    let Some(class_weights) = class_weights else {
        let losses = match *smoothing {
            0.0 => -log_p,
            s => -(log_p * (1.0 - s) + log_p.mean_last() * s),
        };
        return (losses * shares).sum() / or_one(shares.sum());
    };
    check_weights(class_weights, logits);
    let class_weights = constant(cx, class_weights);
    let shares = shares * class_weights;
    let of_labels = (-log_p * shares).sum();
    let losses = match *smoothing {
        0.0 => of_labels,
        s => of_labels * (1.0 - s) + (smoothed(log_p, class_weights, s) * weights).sum(),
    };
    losses / or_one(shares.sum())
}

/// Refuses weights that are not one for each class of the logits.
#[track_caller]
fn check_weights(weights: &[f32], logits: Tensor) {
    let (count, classes) = (weights.len(), logits.dim(-1));
    if count != classes {
        let sentence = format!("{count} class weights for {classes} classes; give one for each class");
        logits.trace().fail(sentence);
    }
}

/// Weights of classes as a constant of the graph.
fn constant(cx: Cx, weights: &[f32]) -> Tensor {
    let values = weights.iter().map(|&weight| f64::from(weight)).collect();
    cx.trace().constant(Array::f32(&[weights.len()], values))
}

/// A sum of weights as a divisor: 1 where it is 0.
pub(crate) fn or_one(whole: Tensor) -> Tensor {
    whole.gt(whole.scalar_like(0.0)).select(whole, whole.scalar_like(1.0))
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Loss::Softmax => Weighting::Softmax.fmt(f),
            Loss::Norm(temperature) => Weighting::Norm(temperature).fmt(f),
        }
    }
}

impl FromStr for Loss {
    type Err = Error;

    /// Reads a word.
    ///
    /// # Errors
    /// An unknown word, or numbers out of range.
    fn from_str(word: &str) -> Result<Loss> {
        match word.parse() {
            Ok(Weighting::Softmax) => Ok(Loss::Softmax),
            Ok(Weighting::Norm(temperature)) if !temperature.learned => Ok(Loss::Norm(temperature)),
            _ => Err(Error::user(format!(
                "there is no loss `{word}`; choose one of {}",
                Loss::words()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use lessen_graph::{Trace, evaluate_exactly};

    use super::*;

    const WEIGHTS: [f64; 3] = [1.0, 2.0, 4.0];
    const SMOOTHING: f64 = 0.1;

    /// The loss of logits with three classes and its derivative, with label smoothing, class weights and, where there
    /// are some, weights of the rows.
    fn weighted(logits: &Array, labels: &[i32], own: Option<&[f64]>, as_shares: bool) -> (f64, Vec<f64>) {
        let trace = Trace::new();
        let criterion = Criterion {
            smoothing: SMOOTHING,
            class_weights: Some(WEIGHTS.map(|w| w as f32).to_vec()),
            ..Criterion::default()
        };
        let rows = labels.len();
        {
            let cx = Cx::new(*trace, false).with_criterion(&criterion);
            let z = trace.input("logits", DType::F32, &[rows, 3]);
            let own = own.map(|own| trace.constant(Array::f32(&[rows], own.to_vec())));
            let loss = if as_shares {
                let share = |i: &[usize]| f64::from(labels[i[0]] == i[1] as i32);
                let targets = trace.constant(Array::from_fn(z.ty(), share));
                let counts = labels.iter().map(|&y| f64::from(y >= 0)).collect();
                let counts = trace.constant(Array::f32(&[rows], counts));
                cross_entropy_of_shares(cx, z, targets, own.map_or(counts, |own| counts * own))
            } else {
                cross_entropy(cx, z, trace.constant(Array::i32(&[rows], labels)), own)
            };
            trace.output("loss", loss);
            trace.output("gradient", loss.grad(&[z])[0]);
        }
        let inputs = HashMap::from([("logits".to_string(), logits.clone())]);
        let mut found = evaluate_exactly(&trace.finish(), &inputs).unwrap();
        (found["loss"].item(), found.remove("gradient").unwrap().data)
    }

    #[test]
    fn label_smoothing_with_class_weights_is_that_of_pytorch() {
        let logits = Array::f32(&[2, 3], vec![1.0, 2.0, 3.0, 0.0, 1.0, 0.0]);
        for as_shares in [false, true] {
            let (loss, gradient) = weighted(&logits, &[0, 2], None, as_shares);
            // torch.nn.functional.cross_entropy(z, y, weight=w, label_smoothing=0.1)
            assert!((loss - 1.6552).abs() < 5e-5, "{loss}");
            // The derivative for z_j: sum_c t_c (p_j - [j = c]), with t_c = (1 - s) w_y [c = y] + s w_c / V.
            for (row, label) in [0, 2].into_iter().enumerate() {
                let z = &logits.data[3 * row..][..3];
                let whole: f64 = z.iter().map(|z| z.exp()).sum();
                let target = |c: usize| {
                    let own = if c == label {
                        (1.0 - SMOOTHING) * WEIGHTS[c]
                    } else {
                        0.0
                    };
                    own + SMOOTHING / 3.0 * WEIGHTS[c]
                };
                for j in 0..3 {
                    let p = z[j].exp() / whole;
                    let expected = (p * (0..3).map(target).sum::<f64>() - target(j)) / (WEIGHTS[0] + WEIGHTS[2]);
                    let found = gradient[3 * row + j];
                    assert!(
                        (found - expected).abs() < 1e-7,
                        "row {row}, class {j}: {found} for {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn rows_without_a_label_have_no_smoothed_loss() {
        let logits = Array::f32(&[2, 3], vec![1.0, 2.0, 3.0, 0.0, 1.0, 0.0]);
        let alone = Array::f32(&[1, 3], vec![1.0, 2.0, 3.0]);
        for as_shares in [false, true] {
            let (loss, gradient) = weighted(&logits, &[1, -100], None, as_shares);
            let (expected, of_one) = weighted(&alone, &[1], None, as_shares);
            assert!((loss - expected).abs() < 1e-12, "{loss} for {expected}");
            assert_eq!((&gradient[..3], &gradient[3..]), (&of_one[..], &[0.0; 3][..]));
            let (none, gradient) = weighted(&logits, &[-100, -100], None, as_shares);
            assert_eq!((none, gradient), (0.0, vec![0.0; 6]));
        }
    }

    #[test]
    fn words_are_read_back_and_others_refused() {
        for word in [
            "softmax",
            "norm_softmax",
            "norm_softmax:gamma=inf",
            "norm_softmax:floor=1,tau=0.5",
            "logit_norm:tau=0.1",
        ] {
            assert_eq!(word.parse::<Loss>().unwrap().to_string(), word);
        }
        for wrong in [
            "",
            "relu",
            "sigmoid",
            "norm_softmax:learned",
            "norm_softmax:gamma=0",
            "logit_norm:gamma=1",
        ] {
            let error = wrong.parse::<Loss>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("there is no loss `{wrong}`; choose one of softmax, ")),
                "{error}"
            );
        }
    }

    #[test]
    fn weights_of_rows_multiply_losses_and_divide_by_their_sum() {
        let logits = Array::f32(&[3, 3], vec![1.0, 2.0, 3.0, 0.0, 1.0, 0.0, 0.5, 0.5, 2.0]);
        let (labels, own) = ([0, 2, -100], [0.25, 3.0, 7.0]);
        let (loss, gradient) = weighted(&logits, &labels, Some(&own), false);
        let (shares, of_shares) = weighted(&logits, &labels, Some(&own), true);
        assert!((loss - shares).abs() < 1e-12, "{loss} {shares}");
        assert!(gradient.iter().zip(&of_shares).all(|(a, b)| (a - b).abs() < 1e-12));
        // The mean of the rows' own losses by the products of both weights.
        let single = |row: usize| {
            let logits = Array::f32(&[1, 3], logits.data[3 * row..][..3].to_vec());
            weighted(&logits, &labels[row..=row], None, false).0
        };
        let products = [0, 1].map(|row| own[row] * WEIGHTS[labels[row] as usize]);
        let expected = (products[0] * single(0) + products[1] * single(1)) / (products[0] + products[1]);
        assert!((loss - expected).abs() < 1e-12, "{loss} {expected}");
    }
}
