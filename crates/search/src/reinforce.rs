//! The derivative of the mean cost by REINFORCE (equation 2.34).

use crate::variables::Variables;
use lessen_base::SplitMix64;

/// An estimate from some networks.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    /// The mean cost of the networks.
    pub mean: f64,
    /// The derivative of the mean cost by the logits.
    pub gradient: Vec<f64>,
}

/// Estimates the derivative of the mean of `cost` from `samples` networks, at least 1, that are drawn by these
/// probabilities: the mean of `(J - b) d log(probability)`, where the baseline `b` of a network is the mean cost of
/// the others, so that the estimate keeps its mean and loses most of its variance. A single network has the baseline
/// 0.
///
/// By the softmax the derivative of `log(probability)` is 1 at the possibility that was drawn, less all probabilities.
pub fn reinforce(
    variables: &Variables,
    probabilities: &[f64],
    samples: usize,
    random: &mut SplitMix64,
    cost: &mut dyn FnMut(&[usize]) -> f64,
) -> Estimate {
    let drawn: Vec<Vec<usize>> = (0..samples).map(|_| variables.draw(probabilities, random)).collect();
    let costs: Vec<f64> = drawn.iter().map(|places| cost(places)).collect();
    let total: f64 = costs.iter().sum();
    let mut gradient = vec![0.0; probabilities.len()];
    for (places, own) in drawn.iter().zip(&costs) {
        let baseline = match samples {
            1 => 0.0,
            _ => (total - own) / (samples - 1) as f64,
        };
        let weight = (own - baseline) / samples as f64;
        for (variable, chosen) in variables.all().iter().zip(places) {
            for place in 0..variable.count {
                let hit = if place == *chosen { 1.0 } else { 0.0 };
                gradient[variable.first + place] += weight * (hit - probabilities[variable.first + place]);
            }
        }
    }
    Estimate {
        mean: total / samples as f64,
        gradient,
    }
}
