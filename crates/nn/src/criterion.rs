//! How labels count in the loss of training.

use lessen_base::{Error, Result};

/// How labels count in the cross entropy of training. Evaluations take the plain one, so that their losses can be
/// compared.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Criterion {
    /// Label smoothing `s` in `[0, 1]` (Szegedy et al. 2016): the label's class has the probability `1 - s + s / V`,
    /// each of the `V - 1` other classes `s / V`.
    pub smoothing: f64,
    /// A weight `w` for each class. As PyTorch's `cross_entropy`, the loss of a row with label `y` is
    /// `-(1 - s) w[y] ln p[y] - s / V sum_c w[c] ln p[c]`, and the loss of a batch is the sum over rows divided by
    /// `sum_i w[y_i]`. None weighs all classes alike.
    pub class_weights: Option<Vec<f32>>,
    /// Whether each text or image of a classifier has a weight of its own, too: its loss is multiplied by the data
    /// input `weights` (`f32[B]`), as that of a regression is, and the loss of a batch is divided by the sum of all
    /// weights.
    pub weighs_examples: bool,
}

impl Criterion {
    /// Checks the ranges of its numbers.
    ///
    /// # Errors
    /// A smoothing outside of `[0, 1]`, and weights of classes that are negative, infinite or no numbers.
    pub fn check(&self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.smoothing) {
            let smoothing = self.smoothing;
            return Err(Error::user(format!(
                "label smoothing {smoothing}; choose a share from 0 to 1"
            )));
        }
        let weights = self.class_weights.iter().flatten();
        match weights
            .enumerate()
            .find(|(_, weight)| !(weight.is_finite() && **weight >= 0.0))
        {
            None => Ok(()),
            Some((class, weight)) => Err(Error::user(format!(
                "class {class} has the weight {weight}; choose a finite number from 0"
            ))),
        }
    }
}
