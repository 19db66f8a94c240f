//! Attention of one query in `f64`: scores, weights, and the derivative of the scores.

use crate::array::Array;
use crate::ops::attention::bias::{AttentionBias, FireRow, alibi_slope};
use crate::ops::attention::operation::{Attention, AttentionSizes, Extras};
use crate::ops::attention::weighting::{Divisor, Weighting};
use crate::ops::rules::{key_of, log_sum_exp};
use crate::philox::{dropout_keeps, dropout_scale, dropout_threshold};

/// The arrays that an attention reads.
pub(super) struct Operands<'a> {
    op: Attention,
    pub n: AttentionSizes,
    q: &'a Array,
    k: &'a Array,
    extras: Extras<&'a Array>,
}

/// The scores of one query.
pub(super) struct Scores {
    /// For each key the score; `-inf` where the query does not see it.
    pub values: Vec<f64>,
    /// For each key the factor of dropout: 0, or the factor that keeps the expectation.
    pub factors: Vec<f64>,
    /// The learned weight of the head, or 1.
    weight: f64,
    position: f64,
}

/// The derivative of one query's scores.
pub(super) struct ScoreCotangents {
    /// The weights before dropout.
    pub weights: Vec<f64>,
    /// For each key the derivative of the score.
    pub scores: Vec<f64>,
    /// The derivative of the learned weight.
    pub weight: f64,
}

impl<'a> Operands<'a> {
    /// From the inputs of the operation; the inputs that its fields ask for come after `before` others.
    pub(super) fn new(op: Attention, inputs: &[&'a Array], before: usize) -> Operands<'a> {
        Operands {
            op,
            n: AttentionSizes::of(&inputs[0].ty, &inputs[1].ty, &inputs[2].ty),
            q: inputs[0],
            k: inputs[1],
            extras: op.extras(&inputs[before..]),
        }
    }

    /// The sequence that a token belongs to, and its first token, where sequences follow each other.
    fn sequence_of(&self, token: usize) -> Option<(usize, usize)> {
        let starts = &self.extras.starts?.data;
        let token = token as f64;
        let index = starts.iter().filter(|&&start| start <= token).count();
        let start = starts
            .iter()
            .copied()
            .filter(|&start| start <= token)
            .fold(0.0, f64::max);
        (index > 0 && index < starts.len()).then_some((index, start as usize))
    }

    fn position(&self, b: usize, i: usize) -> f64 {
        if self.op.segmented {
            return self.sequence_of(i).map_or(0.0, |(_, start)| (i - start) as f64);
        }
        let offset = self.extras.offset.map(|offset| match offset.ty.rank() {
            0 => offset.item(),
            _ => offset.at(&[b]),
        });
        i as f64 + offset.unwrap_or(self.n.keys as f64 - self.n.queries as f64)
    }

    fn sees(&self, b: usize, i: usize, position: f64, j: usize) -> bool {
        let masked = self.extras.mask.is_some_and(|mask| mask.at(&[b, j]) == 0.0);
        let past = if self.op.segmented {
            let same = self.sequence_of(i).is_some() && self.sequence_of(i) == self.sequence_of(j);
            same && (!self.op.causal || j <= i)
        } else {
            !self.op.causal || j as f64 <= position
        };
        past && !masked
    }

    /// The scores of query `i` of sequence `b` in head `h`.
    pub(super) fn scores(&self, b: usize, h: usize, i: usize) -> Scores {
        let (n, kv_head) = (self.n, self.n.kv_head(h));
        let position = self.position(b, i);
        let fire = self.extras.fire.map(|fire| FireRow::new(fire, position));
        let score = |j: usize| {
            if !self.sees(b, i, position, j) {
                return f64::NEG_INFINITY;
            }
            let product: f64 = (0..n.head)
                .map(|d| self.q.at(&[b, i, h, d]) * self.k.at(&[b, j, kv_head, d]))
                .sum();
            let distance = self.distance(i, position, j);
            let bias = match self.op.bias {
                AttentionBias::None => 0.0,
                AttentionBias::Alibi => -alibi_slope(h, n.heads) * distance,
                AttentionBias::Fire => fire.as_ref().map_or(0.0, |fire| fire.bias(h, distance)),
            };
            self.op.scale * product + bias
        };
        let first = (((self.op.sequence + b) * n.heads + h) * n.queries + i) * n.keys;
        let (key, threshold) = (self.extras.key.map(key_of), dropout_threshold(self.op.p));
        let factor = |j: usize| match key {
            Some(key) if dropout_keeps(key, self.op.stream, (first + j) as u64, threshold) => dropout_scale(self.op.p),
            Some(_) => 0.0,
            None => 1.0,
        };
        Scores {
            values: (0..n.keys).map(score).collect(),
            factors: (0..n.keys).map(factor).collect(),
            weight: self.extras.weight.map_or(1.0, |weight| weight.data[h]),
            position,
        }
    }

    fn distance(&self, i: usize, position: f64, j: usize) -> f64 {
        if self.op.segmented {
            i.abs_diff(j) as f64
        } else {
            (position - j as f64).abs()
        }
    }

    /// Adds the derivatives of the parameters of FIRE from `d`, the derivatives of the scores of query `i` in head `h`.
    pub(super) fn add_fire_derivatives(&self, (h, i): (usize, usize), scores: &Scores, d: &[f64], into: &mut [Array]) {
        let Some(fire) = self.extras.fire else { return };
        let row = FireRow::new(fire, scores.position);
        for j in (0..self.n.keys).filter(|&j| scores.values[j] != f64::NEG_INFINITY) {
            row.add_derivatives(h, self.distance(i, scores.position, j), d[j], into);
        }
    }
}

impl Scores {
    fn visible(&self) -> Vec<f64> {
        let seen = self.values.iter().copied();
        seen.filter(|&s| s != f64::NEG_INFINITY).collect()
    }

    fn divisor(&self, by: Divisor) -> f64 {
        match by {
            Divisor::One => 1.0,
            Divisor::Keys => self.visible().len().max(1) as f64,
            Divisor::Constant(c) => c,
        }
    }

    /// Arguments of the softmax.
    fn exponents(&self, weighting: &Weighting) -> Vec<f64> {
        let Some(temperature) = weighting.temperature() else {
            return self.values.clone();
        };
        let normalized = temperature.normalized(&self.visible());
        self.spread(&normalized, self.weight, f64::NEG_INFINITY)
    }

    /// Numbers of visible keys times a factor, at their keys' places; `hidden` at the others.
    fn spread(&self, visible: &[f64], factor: f64, hidden: f64) -> Vec<f64> {
        let mut next = visible.iter();
        let place = |&s: &f64| match s {
            f64::NEG_INFINITY => hidden,
            _ => next.next().map_or(hidden, |x| factor * x),
        };
        self.values.iter().map(place).collect()
    }

    /// The weights before dropout, and for a softmax its `lse`.
    pub(super) fn weights(&self, weighting: &Weighting) -> (Vec<f64>, Option<f64>) {
        match *weighting {
            Weighting::Softmax | Weighting::Norm(_) => {
                let exponents = self.exponents(weighting);
                let lse = log_sum_exp(&exponents);
                (powers(&exponents, lse), Some(lse))
            }
            Weighting::Relu(by) => {
                let by = self.divisor(by);
                (self.values.iter().map(|s| s.max(0.0) / by).collect(), None)
            }
            Weighting::Sigmoid(by) => {
                let shift = self.divisor(by).ln();
                (
                    self.values.iter().map(|s| 1.0 / (1.0 + (shift - s).exp())).collect(),
                    None,
                )
            }
        }
    }

    /// The derivative of the scores from that of the weights before dropout; `softmax` holds `lse` and `delta`, the
    /// product of the query's rows of `o` and `do`.
    pub(super) fn cotangents(
        &self,
        weighting: &Weighting,
        softmax: Option<(f64, f64)>,
        dweights: &[f64],
    ) -> ScoreCotangents {
        let (lse, delta) = softmax.unwrap_or_default();
        let pairs = |weights: &[f64], f: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
            weights.iter().zip(dweights).map(|(&w, &dw)| f(w, dw)).collect()
        };
        let mut weight = 0.0;
        let (weights, scores) = match weighting {
            Weighting::Softmax => {
                let weights = powers(&self.values, lse);
                let scores = pairs(&weights, &|w, dw| w * (dw - delta));
                (weights, scores)
            }
            Weighting::Norm(temperature) => {
                let weights = powers(&self.exponents(weighting), lse);
                let exponents = pairs(&weights, &|w, dw| w * (dw - delta));
                let seen = |x: &[f64]| -> Vec<f64> {
                    let pairs = self.values.iter().zip(x);
                    pairs
                        .filter(|(s, _)| **s != f64::NEG_INFINITY)
                        .map(|(_, &x)| x)
                        .collect()
                };
                let (visible, exponents) = (self.visible(), seen(&exponents));
                let normalized = temperature.normalized(&visible);
                weight = normalized.iter().zip(&exponents).map(|(x, d)| x * d).sum();
                let scores = temperature.derivative(&visible, &exponents);
                (weights, self.spread(&scores, self.weight, 0.0))
            }
            Weighting::Relu(by) => {
                let (weights, by) = (self.weights(weighting).0, self.divisor(*by));
                let scores = pairs(&weights, &|w, dw| if w > 0.0 { dw / by } else { 0.0 });
                (weights, scores)
            }
            Weighting::Sigmoid(_) => {
                let weights = self.weights(weighting).0;
                let scores = pairs(&weights, &|w, dw| w * (1.0 - w) * dw);
                (weights, scores)
            }
        };
        ScoreCotangents {
            weights,
            scores,
            weight,
        }
    }
}

/// `e^(x - lse)`; zeros where no key is seen.
fn powers(exponents: &[f64], lse: f64) -> Vec<f64> {
    let power = |&x: &f64| if x == f64::NEG_INFINITY { 0.0 } else { (x - lse).exp() };
    exponents.iter().map(power).collect()
}
