//! Choice of the next token of a text from the logits of a language model.

use super::beams::Beams;
use super::most_likely::MostLikely;
use super::rules::{Rules, SoFar, check_logits};
use lessen_base::{Error, Result, SplitMix64};

/// Choice of the next token. Logits are first changed by the rules, then divided by the temperature. The token is drawn
/// from the most likely tokens that `top_h`, `top_k`, `top_p`, `min_p`, `typical_p`, `epsilon_cutoff` and `eta_cutoff`
/// leave, applied in this order. These are the definitions of transformers.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Tokens to add at most.
    pub tokens: usize,
    /// Tokens of a text at most, with its prompt; none is no limit.
    pub max_length: Option<usize>,
    /// Divisor of logits before the softmax; 0 takes the most likely token.
    pub temperature: f64,
    /// Number of the most likely tokens that are considered; none considers all.
    pub top_k: Option<usize>,
    /// Share of the most likely tokens that are considered, with the token that reaches it (Holtzman et al. 2020); none
    /// considers all.
    pub top_p: Option<f64>,
    /// Share of the probability of the most likely token that a token needs to be considered.
    pub min_p: Option<f64>,
    /// Share of the entropy of the 100 most likely tokens, up to which they are considered.
    pub top_h: Option<f64>,
    /// Share of the tokens whose information is nearest to the entropy that are considered (Meister et al. 2022).
    pub typical_p: Option<f64>,
    /// Probability that a token needs to be considered (Hewitt et al. 2022).
    pub epsilon_cutoff: Option<f64>,
    /// Probability that a token needs to be considered, or less where the entropy is large (Hewitt et al. 2022).
    pub eta_cutoff: Option<f64>,
    /// Beam search in place of draws; the temperature must be 0.
    pub beams: Option<Beams>,
    /// Whether beams are compared by logarithms of probabilities that sum to 1 after the rules, too.
    pub renormalize: bool,
    /// Rules that change logits by the tokens of a text.
    pub rules: Rules,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for Sampling {
    /// 200 tokens, each drawn from the softmax of the logits as they are.
    fn default() -> Sampling {
        Sampling {
            tokens: 200,
            max_length: None,
            temperature: 1.0,
            top_k: None,
            top_p: None,
            min_p: None,
            top_h: None,
            typical_p: None,
            epsilon_cutoff: None,
            eta_cutoff: None,
            beams: None,
            renormalize: false,
            rules: Rules::default(),
            seed: 1,
        }
    }
}

/// A token that may be drawn, and its weight.
type Candidate = (usize, f64);

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
    /// A temperature below 0 or beside beams, no token to consider, a share outside of `(0, 1]`, numbers of rules and
    /// beams that are out of range.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str, value: f64, remedy: &str| {
            Err(Error::user(format!("{what} {value} makes no sense; choose {remedy}")))
        };
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return wrong("temperature", self.temperature, "a number from 0, such as 0.8");
        }
        if self.top_k == Some(0) {
            return wrong("top-k", 0.0, "at least 1, or leave it out");
        }
        for (what, share) in [
            ("top-p", self.top_p),
            ("top-h", self.top_h),
            ("typical-p", self.typical_p),
        ] {
            if let Some(share) = share.filter(|&share| !(share > 0.0 && share <= 1.0)) {
                return wrong(what, share, "a share above 0 and at most 1, such as 0.9");
            }
        }
        if let Some(share) = self.min_p.filter(|share| !(0.0..=1.0).contains(share)) {
            return wrong("min-p", share, "a share from 0 to 1, such as 0.05");
        }
        for (what, least) in [("epsilon-cutoff", self.epsilon_cutoff), ("eta-cutoff", self.eta_cutoff)] {
            if let Some(least) = least.filter(|&least| !(least > 0.0 && least < 1.0)) {
                return wrong(what, least, "a probability above 0 and below 1, such as 0.0003");
            }
        }
        if let Some(beams) = &self.beams {
            beams.check()?;
            if self.temperature > 0.0 {
                return Err(Error::user(format!(
                    "temperature {} makes no sense beside beams, which draw nothing; choose 0, or leave out one of the two",
                    self.temperature
                )));
            }
        }
        self.rules.check()
    }

    /// Returns the token after a text. A token with the logit `-inf` is never chosen; beside a logit `inf`, no token
    /// with a finite one is.
    ///
    /// # Errors
    /// A logit that is NaN; no logits, or only `-inf`.
    pub(crate) fn choose(&self, logits: &[f32], text: SoFar<'_>, random: &mut SplitMix64) -> Result<i32> {
        let mut logits: Vec<f64> = logits.iter().map(|&logit| logit.into()).collect();
        if !self.rules.remove_invalid {
            check_logits(&logits)?;
        }
        self.rules.apply(&mut logits, text);
        let mut order = MostLikely::of(&logits);
        let Some(first) = order.first.filter(|&first| logits[first] > f64::NEG_INFINITY) else {
            return Err(Error::user(
                "no token has a probability above 0, so the text cannot be continued; the model's weights may be broken, or \
                 rules of generation_config.json forbid every token",
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
        let mut count = logits.len();
        if let Some(share) = self.top_h {
            count = with_entropy(&mut order, share, weight);
        }
        count = self.top_k.unwrap_or(count).clamp(1, count);
        let mut total: f64 = if count < logits.len() {
            (0..count).filter_map(|place| order.get(place)).map(weight).sum()
        } else {
            (0..count).map(weight).sum()
        };
        if let Some(share) = self.top_p {
            (count, total) = order.with_share(share * total, count, weight);
        }
        if let Some(share) = self.min_p {
            // The most likely token has the weight 1.
            let mut candidates = (0..count).map_while(|place| order.get(place)).map(weight);
            let mut kept = 0;
            total = 0.0;
            while let Some(weight) = candidates.next().filter(|&weight| weight >= share) {
                (kept, total) = (kept + 1, total + weight);
            }
            count = kept;
        }
        let mut candidates = (0..count)
            .map_while(|place| order.get(place))
            .map(|token| (token, weight(token)));
        if [self.typical_p, self.epsilon_cutoff, self.eta_cutoff]
            .iter()
            .all(Option::is_none)
        {
            return Ok(draw(&mut candidates, total, random).unwrap_or(first) as i32);
        }
        let left = self.filtered(candidates.collect());
        let total = left.iter().map(|(_, weight)| weight).sum();
        Ok(draw(&mut left.into_iter(), total, random).unwrap_or(first) as i32)
    }

    /// The candidates that `typical_p`, `epsilon_cutoff` and `eta_cutoff` leave, in the same order.
    fn filtered(&self, mut all: Vec<Candidate>) -> Vec<Candidate> {
        if let Some(share) = self.typical_p.filter(|&share| share < 1.0) {
            let (total, entropy) = total_and_entropy(&all);
            let distance = |weight: f64| (-(weight / total).ln() - entropy).abs();
            let mut order: Vec<f64> = all.iter().map(|(_, weight)| *weight).collect();
            order.sort_by(|a, b| distance(*a).total_cmp(&distance(*b)));
            let mut sum = 0.0;
            let is_before = |weight: &&f64| {
                sum += **weight / total;
                sum < share
            };
            let last = order
                .iter()
                .take_while(is_before)
                .count()
                .min(order.len().saturating_sub(1));
            let most = order.get(last).map_or(f64::INFINITY, |weight| distance(*weight));
            all.retain(|(_, weight)| distance(*weight) <= most);
        }
        if let Some(least) = self.epsilon_cutoff {
            at_least(&mut all, |_| least);
        }
        if let Some(least) = self.eta_cutoff {
            at_least(&mut all, |entropy| least.min(least.sqrt() * (-entropy).exp()));
        }
        all
    }
}

/// Keeps the candidates with a probability of at least a number that follows from the entropy, and the likeliest.
fn at_least(all: &mut Vec<Candidate>, least: impl Fn(f64) -> f64) {
    let (total, entropy) = total_and_entropy(all);
    let least = least(entropy) * total;
    let most = all.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
    all.retain(|(_, weight)| *weight >= least || *weight == most);
}

/// The sum of weights, and the entropy of their shares in nats.
fn total_and_entropy(all: &[Candidate]) -> (f64, f64) {
    let weights = || all.iter().map(|(_, weight)| *weight).filter(|weight| *weight > 0.0);
    let total: f64 = weights().sum();
    let term = |weight: f64| -(weight / total) * (weight / total).ln();
    (total, weights().map(term).sum())
}

/// Number of the likeliest of 100 tokens whose terms of the entropy sum to a share of it at most, at least 1.
fn with_entropy(order: &mut MostLikely<'_>, share: f64, weight: impl Fn(usize) -> f64) -> usize {
    const MOST: usize = 100;
    let all: Vec<Candidate> = (0..MOST)
        .map_while(|place| order.get(place))
        .map(|token| (token, weight(token)))
        .collect();
    let (total, entropy) = total_and_entropy(&all);
    let mut sum = 0.0;
    let is_within = |(_, weight): &&Candidate| {
        if *weight > 0.0 {
            sum -= (weight / total) * (weight / total).ln();
        }
        sum <= entropy * share
    };
    all.iter().take_while(is_within).count().max(1)
}

/// Draws one of the candidates, whose weights sum to `total`; none if there are none with a weight.
fn draw(all: &mut dyn Iterator<Item = Candidate>, total: f64, random: &mut SplitMix64) -> Option<usize> {
    let mut rest = random.unit() * total;
    let mut last = None;
    for (token, weight) in all {
        if weight == 0.0 {
            continue;
        }
        rest -= weight;
        last = Some(token);
        if rest < 0.0 {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests;
