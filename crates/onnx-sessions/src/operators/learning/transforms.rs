//! What becomes of scores at last.

use lessen_base::Result;

use lessen_onnx::host::HostCall;

/// What becomes of the scores of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Transform {
    None,
    Softmax,
    Logistic,
}

impl Transform {
    /// That of the attribute `post_transform`.
    ///
    /// # Errors
    /// Another one.
    pub fn of(call: &HostCall<'_>) -> Result<Transform> {
        Ok(match call.text("post_transform").as_deref() {
            None | Some("NONE") => Transform::None,
            Some("SOFTMAX") => Transform::Softmax,
            Some("LOGISTIC") => Transform::Logistic,
            Some(other) => return call.refused(format!("the transform {other} of scores is not known")),
        })
    }
}

/// The scores of a row after the transform.
pub(super) fn transformed(transform: Transform, mut scores: Vec<f64>) -> Vec<f64> {
    match transform {
        Transform::None => {}
        Transform::Logistic => scores.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
        Transform::Softmax => {
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            scores.iter_mut().for_each(|x| *x = (*x - most).exp());
            let sum: f64 = scores.iter().sum();
            scores.iter_mut().for_each(|x| *x /= sum);
        }
    }
    scores
}
