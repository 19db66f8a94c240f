//! Rules that change logits by the tokens of a text so far, whatever chooses the next token.

use lessen_base::{Error, Result};
use std::collections::BTreeMap;

/// Rules that change the logits of the next token, applied in the order of transformers. A text is its prompt and the
/// tokens that were added.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Sequences of tokens, and what is added to the logit of the last token of each where a text ends with the others.
    pub sequence_bias: Vec<(Vec<i32>, f64)>,
    /// Penalty of tokens that are in the text: their positive logits are divided by it, their other logits multiplied
    /// (Keskar et al. 2019). 1 changes nothing.
    pub repetition_penalty: f64,
    /// What is subtracted from the logits of tokens that were added, as OpenAI's API has it. 0 changes nothing.
    pub presence_penalty: f64,
    /// What is subtracted from the logits of tokens for each time that they were added, as OpenAI's API has it.
    pub frequency_penalty: f64,
    /// Number of tokens of which no sequence occurs twice in a text; 0 is no rule.
    pub no_repeat_ngram: usize,
    /// Sequences that no text has. One that is a single end token is no rule.
    pub bad_words: Vec<Vec<i32>>,
    /// Tokens of a text before which it does not end.
    pub min_length: usize,
    /// Tokens that are added before a text ends.
    pub min_tokens: usize,
    /// The second token of a text.
    pub forced_first: Option<i32>,
    /// Tokens of which one is the last that is added.
    pub forced_last: Vec<i32>,
    /// Whether NaN becomes 0, and infinities become the largest and smallest numbers.
    pub remove_invalid: bool,
    /// Number of added tokens, and the factor by whose power the logits of end tokens grow with each further one.
    pub decay: Option<(usize, f64)>,
    /// Tokens that are never added.
    pub suppressed: Vec<i32>,
    /// Tokens that are not the first to be added.
    pub suppressed_first: Vec<i32>,
}

impl Default for Rules {
    /// No rule.
    fn default() -> Rules {
        Rules {
            sequence_bias: Vec::new(),
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            no_repeat_ngram: 0,
            bad_words: Vec::new(),
            min_length: 0,
            min_tokens: 0,
            forced_first: None,
            forced_last: Vec::new(),
            remove_invalid: false,
            decay: None,
            suppressed: Vec::new(),
            suppressed_first: Vec::new(),
        }
    }
}

/// What rules know of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoFar<'a> {
    /// Tokens of the prompt and those that were added.
    pub tokens: &'a [i32],
    /// Number of tokens of the prompt.
    pub prompt: usize,
    /// Number of tokens that are added at most.
    pub most: usize,
    /// Tokens that end a text.
    pub ends: &'a [i32],
}

impl Rules {
    /// Checks the ranges of numbers.
    ///
    /// # Errors
    /// A penalty of repetition that is not above 0, of presence or frequency beyond 2, a sequence without tokens, a
    /// bias that is NaN, a factor below 0.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::user(what));
        if !(self.repetition_penalty.is_finite() && self.repetition_penalty > 0.0) {
            return wrong(format!(
                "repetition-penalty {} makes no sense; choose a number above 0, such as 1.2; 1 is no penalty",
                self.repetition_penalty
            ));
        }
        for (what, penalty) in [
            ("presence-penalty", self.presence_penalty),
            ("frequency-penalty", self.frequency_penalty),
        ] {
            if !(-2.0..=2.0).contains(&penalty) {
                return wrong(format!("{what} {penalty} makes no sense; choose a number from -2 to 2"));
            }
        }
        if self.bad_words.iter().any(Vec::is_empty) || self.sequence_bias.iter().any(|(words, _)| words.is_empty()) {
            return wrong("bad-words has a sequence without tokens, which is everywhere; leave it out".into());
        }
        if let Some((_, bias)) = self.sequence_bias.iter().find(|(_, bias)| bias.is_nan()) {
            return wrong(format!("sequence-bias {bias} makes no sense; choose a number"));
        }
        match self.decay {
            Some((_, factor)) if !(factor.is_finite() && factor >= 0.0) => wrong(format!(
                "exponential-decay-length-penalty {factor} makes no sense; choose a number from 0, such as 1.01"
            )),
            _ => Ok(()),
        }
    }

    /// Changes the logits of the token after a text.
    pub(crate) fn apply(&self, logits: &mut [f64], text: SoFar<'_>) {
        let SoFar {
            tokens,
            prompt,
            most,
            ends,
        } = text;
        let added = tokens.len() - prompt;
        for (words, bias) in &self.sequence_bias {
            add_to_last(logits, tokens, words, *bias);
        }
        self.penalize(logits, tokens);
        self.penalize_added(logits, &tokens[prompt..]);
        forbid(logits, &next_of_ngrams(tokens, self.no_repeat_ngram));
        for words in &self.bad_words {
            if !matches!(words[..], [only] if ends.contains(&only)) {
                add_to_last(logits, tokens, words, f64::NEG_INFINITY);
            }
        }
        if tokens.len() < self.min_length || added < self.min_tokens {
            forbid(logits, ends);
        }
        if let Some(first) = self.forced_first.filter(|_| tokens.len() == 1) {
            force(logits, &[first]);
        }
        if !self.forced_last.is_empty() && added + 1 == most {
            force(logits, &self.forced_last);
        }
        if self.remove_invalid {
            for logit in logits.iter_mut() {
                *logit = if logit.is_nan() {
                    0.0
                } else {
                    logit.clamp(f64::from(f32::MIN), f64::from(f32::MAX))
                };
            }
        }
        if let Some((start, factor)) = self.decay.filter(|(start, _)| added > *start) {
            let growth = factor.powi(i32::try_from(added - start).unwrap_or(i32::MAX)) - 1.0;
            for_each_of(logits, ends, |logit| {
                if logit.is_finite() {
                    *logit += logit.abs() * growth;
                }
            });
        }
        forbid(logits, &self.suppressed);
        let begin = usize::from(prompt == 1 && self.forced_first.is_some());
        if added == begin {
            forbid(logits, &self.suppressed_first);
        }
    }

    fn penalize(&self, logits: &mut [f64], tokens: &[i32]) {
        if self.repetition_penalty == 1.0 {
            return;
        }
        let mut seen = vec![false; logits.len()];
        for token in tokens {
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

    /// Subtracts the penalties of presence and frequency from the logits of tokens that were added.
    fn penalize_added(&self, logits: &mut [f64], added: &[i32]) {
        if self.presence_penalty == 0.0 && self.frequency_penalty == 0.0 {
            return;
        }
        let mut counts: BTreeMap<i32, f64> = BTreeMap::new();
        for token in added {
            *counts.entry(*token).or_default() += 1.0;
        }
        for (token, count) in counts {
            let penalty = self.presence_penalty + count * self.frequency_penalty;
            for_each_of(logits, &[token], |logit| *logit -= penalty);
        }
    }
}

/// Refuses logits that are NaN.
///
/// # Errors
/// A logit that is NaN.
pub(super) fn check_logits(logits: &[f64]) -> Result<()> {
    match logits.iter().position(|logit| logit.is_nan()) {
        Some(token) => Err(Error::user(format!(
            "the model's logit of token {token} is NaN, so the text cannot be continued; its weights may be broken"
        ))),
        None => Ok(()),
    }
}

/// The tokens after which a sequence of `count` tokens would occur twice.
fn next_of_ngrams(tokens: &[i32], count: usize) -> Vec<i32> {
    if count == 0 || tokens.len() < count {
        return Vec::new();
    }
    let end = &tokens[tokens.len() + 1 - count..];
    let ngrams = tokens.windows(count).filter_map(|ngram| ngram.split_last());
    let same = ngrams.filter(|(_, start)| *start == end);
    same.map(|(last, _)| *last).collect()
}

/// Adds a bias to the last token of a sequence where a text ends with the others.
fn add_to_last(logits: &mut [f64], tokens: &[i32], words: &[i32], bias: f64) {
    if let Some((last, start)) = words.split_last()
        && tokens.ends_with(start)
    {
        for_each_of(logits, &[*last], |logit| *logit += bias);
    }
}

/// Leaves these tokens with the logit 0, and no others.
fn force(logits: &mut [f64], tokens: &[i32]) {
    logits.fill(f64::NEG_INFINITY);
    for_each_of(logits, tokens, |logit| *logit = 0.0);
}

fn forbid(logits: &mut [f64], tokens: &[i32]) {
    for_each_of(logits, tokens, |logit| *logit = f64::NEG_INFINITY);
}

fn for_each_of(logits: &mut [f64], tokens: &[i32], mut change: impl FnMut(&mut f64)) {
    for token in tokens {
        if let Some(logit) = usize::try_from(*token).ok().and_then(|token| logits.get_mut(token)) {
            change(logit);
        }
    }
}
