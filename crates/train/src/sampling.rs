//! Choice of the next token of a text from the logits of a language model.

use crate::most_likely::MostLikely;
use lessen_base::{Error, Result, SplitMix64};

/// Choice of the next token. Logits are first changed by the repetition penalty, then divided by the temperature. The
/// token is drawn from the smallest set with the share `top_p` of the `top_k` most likely tokens. These are the
/// definitions of transformers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Tokens to add at most.
    pub tokens: usize,
    /// Divisor of logits before the softmax; 0 takes the most likely token.
    pub temperature: f64,
    /// Number of the most likely tokens that are considered; none considers all.
    pub top_k: Option<usize>,
    /// Share of the most likely tokens that are considered, with the token that reaches it (Holtzman et al. 2020); none
    /// considers all.
    pub top_p: Option<f64>,
    /// Penalty of tokens that are in the text or its prompt: their positive logits are divided by it, their other
    /// logits multiplied (Keskar et al. 2019). 1 changes nothing.
    pub repetition_penalty: f64,
    /// Seed of the draws.
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
    /// At most `tokens` tokens, each of them the most likely token.
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

    /// Returns the token after `text`. A token with the logit `-inf` is never chosen; beside a logit `inf`, no token
    /// with a finite one is.
    ///
    /// # Errors
    /// A logit that is NaN; no logits, or only `-inf`.
    pub(crate) fn choose(&self, logits: &[f32], text: &[i32], random: &mut SplitMix64) -> Result<i32> {
        if let Some(token) = logits.iter().position(|logit| logit.is_nan()) {
            return Err(Error::user(format!(
                "the model's logit of token {token} is NaN, so the text cannot be continued; its weights may be broken"
            )));
        }
        let mut logits: Vec<f64> = logits.iter().map(|&logit| logit.into()).collect();
        self.penalize(&mut logits, text);
        let mut order = MostLikely::of(&logits);
        let Some(first) = order.first.filter(|&first| logits[first] > f64::NEG_INFINITY) else {
            return Err(Error::user(
                "the model gives no token a probability above 0, so the text cannot be continued; its weights may be broken",
            ));
        };
        if self.temperature <= 0.0 {
            return Ok(first as i32);
        }
        let weight = |token: usize| {
            // The difference of equal infinite logits is NaN.
            if logits[token] == logits[first] {
                1.0
            } else {
                ((logits[token] - logits[first]) / self.temperature).exp()
            }
        };
        let mut count = self.top_k.unwrap_or(logits.len()).clamp(1, logits.len());
        let mut total: f64 = if count < logits.len() {
            (0..count).filter_map(|place| order.get(place)).map(weight).sum()
        } else {
            (0..count).map(weight).sum()
        };
        if let Some(share) = self.top_p {
            (count, total) = order.with_share(share * total, count, weight);
        }
        let mut rest = random.unit() * total;
        let mut last = first;
        for token in (0..count).map_while(|place| order.get(place)) {
            if weight(token) == 0.0 {
                continue;
            }
            rest -= weight(token);
            last = token;
            if rest < 0.0 {
                break;
            }
        }
        Ok(last as i32)
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
            counts[sampling.choose(&LOGITS, text, &mut random).unwrap() as usize] += 1.0 / 20_000.0;
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
        assert_eq!(greedy.choose(&[-1.0, -1.5], &[0], &mut random), Ok(1));
        assert_eq!(greedy.choose(&[-1.0, -2.5], &[0], &mut random), Ok(0));
        assert_eq!(greedy.choose(&[5.0, 3.0], &[0, 7, -1], &mut random), Ok(1));
    }

    /// The token that is drawn where all tokens are sorted.
    fn chosen_of_sorted(sampling: &Sampling, logits: &[f32], random: &mut SplitMix64) -> i32 {
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        order.truncate(sampling.top_k.unwrap_or(logits.len()));
        let largest = f64::from(logits[order[0]]);
        let weight = |token: &usize| ((f64::from(logits[*token]) - largest) / sampling.temperature).exp();
        let least = sampling.top_p.unwrap_or(1.0) * order.iter().map(weight).sum::<f64>();
        let (mut sum, mut count) = (0.0, 0);
        while count < order.len() && (sum < least || sampling.top_p.is_none()) {
            sum += weight(&order[count]);
            count += 1;
        }
        let mut rest = random.unit() * sum;
        let drawn = order[..count].iter().find(|token| {
            rest -= weight(token);
            rest < 0.0
        });
        drawn.copied().unwrap_or(order[count - 1]) as i32
    }

    #[test]
    fn draws_from_many_tokens_are_those_of_sorted_ones() {
        let mut random = SplitMix64::keyed(4, 0);
        for spread in [0.0, 0.5, 4.0, 40.0] {
            // Some of them are equal.
            let logits: Vec<f32> = (0..5000)
                .map(|_| (random.unit() * 900.0).floor() as f32 * spread / 900.0)
                .collect();
            for (top_k, top_p) in [
                (None, None),
                (Some(1), None),
                (Some(700), None),
                (None, Some(0.6)),
                (Some(90), Some(0.9)),
            ] {
                let sampling = Sampling {
                    temperature: 0.9,
                    top_k,
                    top_p,
                    ..Sampling::default()
                };
                for seed in 0..40 {
                    let draw = || SplitMix64::keyed(seed, 1);
                    let found = sampling.choose(&logits, &[], &mut draw()).unwrap();
                    let expected = chosen_of_sorted(&sampling, &logits, &mut draw());
                    assert_eq!(found, expected, "seed {seed}, spread {spread}, {sampling:?}");
                }
            }
        }
    }

    #[test]
    fn logits_that_are_nan_or_leave_no_token_are_an_error() {
        let all = Sampling::default();
        let (top_k, top_p) = (Some(1), Some(0.5));
        for sampling in [
            all,
            Sampling::greedy(1),
            Sampling { top_k, ..all },
            Sampling { top_p, ..all },
        ] {
            let refused = |logits: &[f32]| {
                let mut random = SplitMix64::keyed(3, 0);
                sampling.choose(logits, &[0], &mut random).unwrap_err().to_string()
            };
            assert!(refused(&[1.0, f32::NAN, 2.0]).contains("the model's logit of token 1 is NaN"));
            assert!(refused(&[f32::NAN; 3]).contains("token 0 is NaN"));
            assert!(refused(&[-f32::NAN, f32::INFINITY]).contains("token 0 is NaN"));
            assert!(refused(&[f32::NEG_INFINITY; 2]).contains("no token a probability"));
            assert!(refused(&[]).contains("no token a probability"));
        }
    }

    #[test]
    fn infinite_logits_are_limits() {
        let (top_k, top_p) = (Some(2), Some(0.9));
        let all = Sampling {
            repetition_penalty: 1.5,
            ..Sampling::default()
        };
        for sampling in [all, Sampling { top_k, ..all }, Sampling { top_p, ..all }] {
            for seed in 0..50 {
                let chosen = |logits: &[f32]| sampling.choose(logits, &[0], &mut SplitMix64::keyed(seed, 0));
                let never = f32::NEG_INFINITY;
                assert_eq!(chosen(&[never, never, 0.5, never]), Ok(2), "{sampling:?}");
                assert_eq!(chosen(&[3.0, f32::INFINITY, 80.0, never]), Ok(1), "{sampling:?}");
            }
        }
        assert_eq!(
            Sampling::greedy(1).choose(&[1.0, f32::INFINITY], &[], &mut SplitMix64::keyed(1, 0)),
            Ok(1)
        );
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
