//! How the next token of a text is chosen from the logits of a language model.

use lessen_base::{Error, Result, SplitMix64};
use std::cmp::Ordering;

/// How the next token is chosen. Logits are first changed by the repetition penalty, then divided by the temperature;
/// of the `top_k` most likely tokens the smallest set with the share `top_p` is drawn from. These are the definitions
/// of transformers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Tokens to add at most.
    pub tokens: usize,
    /// Logits are divided by it before the softmax; 0 always takes the most likely token.
    pub temperature: f64,
    /// Only so many of the most likely tokens are considered; none considers all.
    pub top_k: Option<usize>,
    /// Only the most likely tokens that have this share together are considered, the one that reaches it included
    /// (Holtzman et al. 2020); none considers all.
    pub top_p: Option<f64>,
    /// Positive logits of tokens that the text has, the prompt included, are divided by it, others multiplied (Keskar
    /// et al. 2019); 1 changes nothing.
    pub repetition_penalty: f64,
    /// Decides what is drawn.
    pub seed: u64,
}

impl Default for Sampling {
    /// 200 tokens, each drawn from the softmax of the logits as they are.
    fn default() -> Sampling {
        Sampling {
            tokens: 200,
            temperature: 1.0,
            top_k: None,
            top_p: None,
            repetition_penalty: 1.0,
            seed: 1,
        }
    }
}

impl Sampling {
    /// At most so many tokens, each the most likely one.
    pub fn greedy(tokens: usize) -> Sampling {
        Sampling {
            tokens,
            temperature: 0.0,
            ..Sampling::default()
        }
    }

    /// Checks the ranges of numbers.
    ///
    /// # Errors
    /// A temperature below 0, no token to consider, a share outside of `(0, 1]`, a penalty that is not above 0.
    pub fn check(&self) -> Result<()> {
        let finite = |x: f64, is_in_range: bool| x.is_finite() && is_in_range;
        let wrong = |what: &str, value: f64, remedy: &str| {
            Err(Error::user(format!("{what} {value} makes no sense; choose {remedy}")))
        };
        if !finite(self.temperature, self.temperature >= 0.0) {
            return wrong("temperature", self.temperature, "a number from 0, such as 0.8");
        }
        if self.top_k == Some(0) {
            return wrong("top-k", 0.0, "at least 1, or leave it out");
        }
        if let Some(share) = self.top_p.filter(|&share| !(share > 0.0 && share <= 1.0)) {
            return wrong("top-p", share, "a share above 0 and at most 1, such as 0.9");
        }
        if !finite(self.repetition_penalty, self.repetition_penalty > 0.0) {
            let remedy = "a number above 0, such as 1.2; 1 is no penalty";
            return wrong("repetition-penalty", self.repetition_penalty, remedy);
        }
        Ok(())
    }

    /// The token after `text`.
    pub(crate) fn choose(&self, logits: &[f32], text: &[i32], random: &mut SplitMix64) -> i32 {
        let mut logits: Vec<f64> = logits.iter().map(|&logit| logit.into()).collect();
        self.penalize(&mut logits, text);
        let likelier = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
        let order = self.most_likely(logits.len(), likelier);
        let Some(&first) = order.first() else { return 0 };
        if self.temperature <= 0.0 {
            return first as i32;
        }
        let weights = order
            .iter()
            .map(|&token| ((logits[token] - logits[first]) / self.temperature).exp());
        let mut weights: Vec<f64> = weights.collect();
        if let Some(share) = self.top_p {
            truncate_to_share(&mut weights, share);
        }
        let mut rest = random.unit() * weights.iter().sum::<f64>();
        for (&token, weight) in order.iter().zip(&weights) {
            rest -= weight;
            if rest < 0.0 {
                return token as i32;
            }
        }
        order[weights.len() - 1] as i32
    }

    fn penalize(&self, logits: &mut [f64], text: &[i32]) {
        if self.repetition_penalty == 1.0 {
            return;
        }
        let mut seen = vec![false; logits.len()];
        for token in text {
            let token = usize::try_from(*token).unwrap_or(usize::MAX);
            let (Some(seen), Some(logit)) = (seen.get_mut(token), logits.get_mut(token)) else {
                continue;
            };
            if !std::mem::replace(seen, true) {
                *logit *= if *logit > 0.0 {
                    1.0 / self.repetition_penalty
                } else {
                    self.repetition_penalty
                };
            }
        }
    }

    /// The tokens to consider, the most likely one first.
    fn most_likely(&self, tokens: usize, likelier: impl Fn(&usize, &usize) -> Ordering) -> Vec<usize> {
        let mut order: Vec<usize> = (0..tokens).collect();
        let count = match self.temperature <= 0.0 {
            true => 1,
            false => self.top_k.unwrap_or(tokens).max(1),
        };
        if count < tokens {
            order.select_nth_unstable_by(count - 1, &likelier);
            order.truncate(count);
        }
        order.sort_unstable_by(likelier);
        order
    }
}

/// Keeps the first of descending weights that have a share of their sum together, the one that reaches it included.
fn truncate_to_share(weights: &mut Vec<f64>, share: f64) {
    let least = share * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    let reached = weights.iter().position(|weight| {
        sum += weight;
        sum >= least
    });
    weights.truncate(reached.map_or(weights.len(), |last| last + 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 4] = [0.0, 2.0, 1.0, -30.0];

    /// How often each token is drawn after `text`.
    fn shares_after(text: &[i32], sampling: Sampling) -> Vec<f64> {
        let mut random = SplitMix64::keyed(3, 0);
        let mut counts = vec![0.0; LOGITS.len()];
        for _ in 0..20_000 {
            counts[sampling.choose(&LOGITS, text, &mut random) as usize] += 1.0 / 20_000.0;
        }
        counts
    }

    fn shares(sampling: Sampling) -> Vec<f64> {
        shares_after(&[], sampling)
    }

    #[track_caller]
    fn assert_shares(found: Vec<f64>, weights: [f64; 4]) {
        let total: f64 = weights.iter().sum();
        for (found, weight) in found.iter().zip(weights) {
            assert!(
                (found - weight / total).abs() < 0.02 && (weight > 0.0 || *found == 0.0),
                "{found} for {weights:?}"
            );
        }
    }

    #[test]
    fn tokens_are_drawn_as_often_as_the_softmax_says() {
        let e = f64::exp;
        let all = Sampling::default();
        assert_shares(shares(all), [1.0, e(2.0), e(1.0), e(-30.0)]);
        let top_k = Sampling {
            temperature: 0.5,
            top_k: Some(2),
            ..all
        };
        assert_shares(shares(top_k), [0.0, e(4.0), e(2.0), 0.0]);
        assert_shares(shares(Sampling::greedy(1)), [0.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn the_token_that_reaches_the_share_is_the_last_one() {
        let e = f64::exp;
        // The most likely token has a share of 0.665, the two most likely ones of 0.910.
        let nucleus = |top_p| Sampling {
            top_p: Some(top_p),
            ..Sampling::default()
        };
        assert_shares(shares(nucleus(0.66)), [0.0, 1.0, 0.0, 0.0]);
        assert_shares(shares(nucleus(0.67)), [0.0, e(2.0), e(1.0), 0.0]);
        assert_shares(shares(nucleus(0.90)), [0.0, e(2.0), e(1.0), 0.0]);
        assert_shares(shares(nucleus(0.92)), [1.0, e(2.0), e(1.0), 0.0]);
        // Of two tokens the first one has a share of 0.731.
        let both = Sampling {
            top_k: Some(2),
            ..nucleus(0.72)
        };
        assert_shares(shares(both), [0.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn repeated_tokens_are_penalized_once_on_both_sides_of_zero() {
        let e = f64::exp;
        let penalized = Sampling {
            repetition_penalty: 2.0,
            ..Sampling::default()
        };
        assert_shares(shares_after(&[1, 1, 3, 1], penalized), [1.0, e(1.0), e(1.0), 0.0]);
        let greedy = Sampling {
            temperature: 0.0,
            ..penalized
        };
        let mut random = SplitMix64::keyed(3, 0);
        assert_eq!(greedy.choose(&[-1.0, -1.5], &[0], &mut random), 1);
        assert_eq!(greedy.choose(&[-1.0, -2.5], &[0], &mut random), 0);
        assert_eq!(greedy.choose(&[5.0, 3.0], &[0, 7, -1], &mut random), 1);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let all = Sampling::default();
        all.check().unwrap();
        let refused = |sampling: Sampling| sampling.check().unwrap_err().to_string();
        let temperature = |temperature| Sampling { temperature, ..all };
        let top_p = |share| Sampling {
            top_p: Some(share),
            ..all
        };
        let penalty = |repetition_penalty| Sampling {
            repetition_penalty,
            ..all
        };
        assert_eq!(
            refused(temperature(-1.0)),
            "temperature -1 makes no sense; choose a number from 0, such as 0.8"
        );
        for sampling in [
            temperature(f64::NAN),
            Sampling { top_k: Some(0), ..all },
            top_p(0.0),
            top_p(1.5),
            top_p(f64::NAN),
            penalty(0.0),
            penalty(f64::INFINITY),
        ] {
            assert!(refused(sampling).contains("makes no sense"), "{sampling:?}");
        }
    }
}
