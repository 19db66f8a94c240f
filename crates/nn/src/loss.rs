//! What the cross entropy of a model is taken of: its logits, or normalized logits.

use std::fmt;
use std::str::FromStr;

use lessen_base::{Error, Result};
use lessen_graph::Tensor;
use lessen_graph::ops::attention::Weighting;
use lessen_graph::ops::norm::temperature::Temperature;

/// The softmax in the cross entropy of a classifier or language model, and so in the probabilities that it predicts.
///
/// As a word: those of [`Weighting`] that are a softmax without a learned weight, such as `norm_softmax:gamma=inf`.
/// With `gamma = 1` logits are divided by their deviation where it is below 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Loss {
    /// Of the logits as they are.
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

    /// The logits that softmax is applied to. A single one is the prediction of a regression and stays as it is.
    #[track_caller]
    pub fn normalize(self, logits: Tensor<'_>) -> Tensor<'_> {
        match self {
            Loss::Norm(temperature) if logits.dim(-1) > 1 => logits.norm_logits(temperature),
            _ => logits,
        }
    }
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
    /// A word that is none, or has numbers out of range.
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
    use super::*;

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
}
