//! Predictions of models.

/// A prediction for a text or an image.
#[derive(Clone, Debug, PartialEq)]
pub enum Prediction {
    /// The number of the most likely class, and the probabilities of all.
    Class(usize, Vec<f64>),
    /// The numbers of the predicted labels, where examples can have several, and the probabilities of all.
    Labels(Vec<usize>, Vec<f64>),
    /// A value.
    Score(f64),
    /// The answer to a sum, as text.
    Sum(String),
}
