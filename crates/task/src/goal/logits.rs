//! Arithmetic on logits.

use lessen_base::{Error, Result};

/// Refuses numbers of a model of which one is NaN or infinite: no answer follows from them.
///
/// # Errors
/// The first such number.
pub fn check_finite(numbers: &[f32]) -> Result<()> {
    match numbers.iter().find(|number| !number.is_finite()) {
        None => Ok(()),
        Some(number) => Err(not_finite(*number)),
    }
}

/// The error of a number of a model that is NaN or infinite.
pub fn not_finite(number: f32) -> Error {
    let what = if number.is_nan() {
        "NaN, which is no number"
    } else {
        "infinite"
    };
    Error::user(format!(
        "the model's answer is {what}; its weights are damaged, or its precision is too low: name a sound model, or ask it \
         with --precision f32"
    ))
}

/// The probability of a label with this logit.
pub fn sigmoid(logit: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(logit)).exp())
}

/// The probabilities of classes that exclude each other.
pub fn softmax(logits: &[f32]) -> Vec<f64> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = logits.iter().map(|&logit| f64::from(logit - top).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// The position of the largest element in each of `rows` equal rows; the first of equal ones.
pub fn largest(values: &[f32], rows: usize) -> Vec<i32> {
    let width = (values.len() / rows.max(1)).max(1);
    let best = |row: &[f32]| {
        let mut best = 0;
        for (index, value) in row.iter().enumerate() {
            if *value > row[best] {
                best = index;
            }
        }
        best as i32
    };
    values.chunks_exact(width).map(best).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_numbers_are_answers() {
        assert_eq!(check_finite(&[0.0, f32::MAX, f32::MIN]), Ok(()));
        for (number, what) in [
            (f32::NAN, "NaN"),
            (f32::INFINITY, "infinite"),
            (f32::NEG_INFINITY, "infinite"),
        ] {
            let sentence = check_finite(&[0.0, number]).unwrap_err().to_string();
            assert!(sentence.contains(what), "{sentence}");
        }
    }

    #[test]
    fn the_largest_of_each_row_is_found() {
        assert_eq!(largest(&[0.0, 2.0, 2.0, -1.0, -3.0, -2.0], 2), [1, 0]);
        assert_eq!(largest(&[], 0), [0i32; 0]);
    }
}
