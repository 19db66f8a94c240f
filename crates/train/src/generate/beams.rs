//! Beam search: several beginnings of a text are continued at once, and those with the largest probability are kept.

use super::IsComplete;
use super::rules::{Rules, SoFar, check_logits};
use lessen_base::{Error, Result};

/// Score of a beam that is none.
const NONE: f64 = -1e9;

/// When a search ends before the longest text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EarlyStopping {
    /// As soon as there are as many complete texts as beams.
    Complete,
    /// When a running text of the present length would not be better than the worst complete one.
    #[default]
    Unlikely,
    /// When no running text can become better than the worst complete one.
    Never,
}

/// Beam search, by the definitions of transformers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beams {
    /// Number of beams, at least 1.
    pub count: usize,
    /// Power of the number of added tokens by which the logarithm of a text's probability is divided: above 0 favours
    /// longer texts.
    pub length_penalty: f64,
    /// When a search ends.
    pub early_stopping: EarlyStopping,
}

impl Beams {
    /// So many beams, with texts compared by the mean logarithm of the probabilities of their tokens.
    pub fn new(count: usize) -> Beams {
        Beams {
            count,
            length_penalty: 1.0,
            early_stopping: EarlyStopping::Unlikely,
        }
    }

    /// Checks the ranges of numbers.
    ///
    /// # Errors
    /// No beam, and a penalty that is not finite.
    pub(crate) fn check(&self) -> Result<()> {
        if self.count == 0 {
            return Err(Error::user("beams 0 makes no sense; choose at least 1"));
        }
        if !self.length_penalty.is_finite() {
            let penalty = self.length_penalty;
            return Err(Error::user(format!(
                "length-penalty {penalty} makes no sense; choose a number such as 1; above 1 favours longer texts"
            )));
        }
        Ok(())
    }
}

/// A text of a search.
#[derive(Clone, Debug)]
pub(crate) struct Beam {
    /// Logarithm of its probability; of a complete text divided by the power of its length.
    score: f64,
    /// Tokens of the prompt and those that were added.
    pub tokens: Vec<i32>,
    is_complete: bool,
}

/// The search for continuations of one prompt.
pub(crate) struct Search {
    beams: Beams,
    prompt: usize,
    most: usize,
    pub running: Vec<Beam>,
    complete: Vec<Beam>,
    can_improve: bool,
    pub ended: bool,
}

impl Search {
    /// A search for continuations of at most `most` tokens.
    pub fn new(beams: Beams, prompt: &[i32], most: usize) -> Search {
        let beam = |score| Beam {
            score,
            tokens: prompt.to_vec(),
            is_complete: false,
        };
        // All beams begin alike, so the first step takes the tokens of the first alone.
        let score = |number: usize| if number == 0 { 0.0 } else { NONE };
        Search {
            beams,
            prompt: prompt.len(),
            most,
            running: (0..beams.count).map(|number| beam(score(number))).collect(),
            complete: vec![beam(NONE); beams.count],
            can_improve: true,
            ended: most == 0,
        }
    }

    /// Takes the logits of the next token of each beam. Returns the numbers of the beams that the new ones continue.
    ///
    /// # Errors
    /// A logit that is NaN, and the errors of `is_complete`.
    pub fn step(
        &mut self,
        logits: &[f32],
        (rules, renormalize): (&Rules, bool),
        ends: &[i32],
        is_complete: &IsComplete<'_>,
    ) -> Result<Vec<usize>> {
        let count = self.beams.count;
        let width = logits.len() / count;
        let mut scores = Vec::with_capacity(logits.len());
        for (beam, logits) in self.running.iter().zip(logits.chunks(width.max(1))) {
            let mut own: Vec<f64> = logits.iter().map(|&logit| logit.into()).collect();
            if !rules.remove_invalid {
                check_logits(&own)?;
            }
            normalize(&mut own);
            let text = SoFar {
                tokens: &beam.tokens,
                prompt: self.prompt,
                most: self.most,
                ends,
            };
            rules.apply(&mut own, text);
            if renormalize {
                normalize(&mut own);
            }
            scores.extend(own.into_iter().map(|score| score + beam.score));
        }
        // So many that enough of them do not end.
        let kept = (count * (1 + ends.len()).max(2)).min(scores.len());
        let added = self.running[0].tokens.len() + 1 - self.prompt;
        let candidate = |place: usize| -> Result<(Beam, usize)> {
            let (from, token) = (place / width, (place % width) as i32);
            let mut tokens = self.running[from].tokens.clone();
            tokens.push(token);
            let beam = Beam {
                score: scores[place],
                is_complete: ends.contains(&token) || added >= self.most || is_complete(&tokens, self.prompt)?,
                tokens,
            };
            Ok((beam, from))
        };
        let candidates = largest(&scores, kept).into_iter().map(candidate);
        let candidates: Vec<(Beam, usize)> = candidates.collect::<Result<_>>()?;
        self.complete_with(&candidates, added);
        let running: Vec<f64> = candidates
            .iter()
            .map(|(beam, _)| beam.score + if beam.is_complete { NONE } else { 0.0 })
            .collect();
        let next = largest(&running, count.min(candidates.len()));
        let parents = next.iter().map(|&place| candidates[place].1).collect();
        self.running = next
            .iter()
            .map(|&place| Beam {
                score: running[place],
                ..candidates[place].0.clone()
            })
            .collect();
        self.can_improve &= self.may_improve(added);
        let is_full = self.complete.iter().all(|beam| beam.is_complete);
        let is_enough = is_full && self.beams.early_stopping == EarlyStopping::Complete;
        self.ended = !self.can_improve || is_enough || candidates.iter().all(|(beam, _)| beam.is_complete);
        Ok(parents)
    }

    /// Keeps the best complete texts.
    fn complete_with(&mut self, candidates: &[(Beam, usize)], added: usize) {
        let is_full = self.complete.iter().all(|beam| beam.is_complete);
        let is_over = (is_full && self.beams.early_stopping == EarlyStopping::Complete) || !self.can_improve;
        let divisor = (added as f64).powf(self.beams.length_penalty);
        for (number, (beam, _)) in candidates.iter().enumerate() {
            let is_complete = beam.is_complete && number < self.beams.count;
            let penalty = if is_complete && !is_over { 0.0 } else { NONE };
            self.complete.push(Beam {
                score: beam.score / divisor + penalty,
                tokens: beam.tokens.clone(),
                is_complete,
            });
        }
        let scores: Vec<f64> = self.complete.iter().map(|beam| beam.score).collect();
        let best = largest(&scores, self.beams.count);
        self.complete = best.into_iter().map(|place| self.complete[place].clone()).collect();
    }

    /// Whether a running text may become better than the worst complete one.
    fn may_improve(&self, added: usize) -> bool {
        let is_never = self.beams.early_stopping == EarlyStopping::Never;
        let length = if is_never && self.beams.length_penalty > 0.0 {
            self.most
        } else {
            added
        };
        let best = self.running[0].score / (length as f64).powf(self.beams.length_penalty);
        let worst = self
            .complete
            .iter()
            .map(|beam| beam.score)
            .fold(f64::INFINITY, f64::min);
        let is_better = |beam: &Beam| best > if beam.is_complete { worst } else { NONE };
        self.complete.iter().any(is_better)
    }

    /// The tokens that the best texts add, without the token that ends them; best first.
    pub fn results(&self, count: usize, ends: &[i32]) -> Vec<Vec<i32>> {
        let added = |beam: &Beam| {
            let mut added = beam.tokens[self.prompt..].to_vec();
            if added.last().is_some_and(|last| ends.contains(last)) {
                added.pop();
            }
            added
        };
        self.complete.iter().take(count).map(added).collect()
    }
}

/// Subtracts the logarithm of the sum of exponentials.
fn normalize(logits: &mut [f64]) {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most.is_finite() {
        let sum: f64 = logits.iter().map(|logit| (logit - most).exp()).sum();
        let shift = most + sum.ln();
        logits.iter_mut().for_each(|logit| *logit -= shift);
    }
}

/// Places of the largest numbers, largest first; of equal ones the first comes first.
fn largest(numbers: &[f64], count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..numbers.len()).collect();
    let order = |a: &usize, b: &usize| numbers[*b].total_cmp(&numbers[*a]).then(a.cmp(b));
    if count < places.len() {
        places.select_nth_unstable_by(count, order);
        places.truncate(count);
    }
    places.sort_unstable_by(order);
    places
}
