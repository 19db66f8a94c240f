//! Continuing a text token by token, with keys and values of the past kept.

use crate::session::{Function, Inputs, Session};
use lessen_base::{Error, Result, SplitMix64};
use lessen_compile::Host;
use lessen_nn::Model;
use lessen_nn::models::gpt2::GPT2LMHeadModel;

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Tokens to add.
    pub tokens: usize,
    /// Scores are divided by it before the softmax; 0 always takes the most likely token.
    pub temperature: f64,
    /// Only so many of the most likely tokens are considered; none considers all.
    pub top_k: Option<usize>,
    /// Decides what is drawn.
    pub seed: u64,
}

/// A language model that continues texts.
pub struct Generator {
    model: GPT2LMHeadModel,
    session: Session,
    decode: Function,
    capacity: usize,
    end: Option<i32>,
}

impl Generator {
    /// Prepares a language model whose parameters a session has. It keeps the keys and values of as many tokens as it has
    /// positions; of `most` where positions are unlimited.
    ///
    /// # Errors
    /// A model that is none, and one that the memory cannot hold.
    pub fn new(mut session: Session, model: &Model, most: usize) -> Result<Generator> {
        let Model::GPT2LMHeadModel(gpt2) = model else {
            return Err(Error::user(
                "this model is a classifier, which continues no texts; take a language model",
            ));
        };
        let (gpt2, capacity) = (gpt2.clone(), model.max_length().unwrap_or(most.max(1)));
        let decode = session.function(|cx| vec![("logits", gpt2.decode(cx, 1, capacity))])?;
        let end = model.config_json().get("eos_token_id").and_then(|id| id.as_i64());
        let end = end.and_then(|id| i32::try_from(id).ok());
        Ok(Generator {
            model: gpt2,
            session,
            decode,
            capacity,
            end,
        })
    }

    /// The tokens that follow `prompt`, up to the token that ends a text. A text of more tokens than are kept is
    /// continued from its last half.
    ///
    /// # Errors
    /// A prompt without tokens, or with one that the model does not know.
    pub fn generate(&mut self, prompt: &[i32], sampling: &Sampling) -> Result<Vec<i32>> {
        if prompt.is_empty() {
            return Err(Error::user("the prompt has no tokens; give at least one"));
        }
        let mut text = prompt.to_vec();
        let mut random = SplitMix64::keyed(sampling.seed, 0);
        let mut known = 0;
        for _ in 0..sampling.tokens {
            let logits = if known == 0 || known == self.capacity {
                let window = if text.len() > self.capacity {
                    (self.capacity / 2).max(1)
                } else {
                    text.len()
                };
                known = window;
                self.read(&text[text.len() - window..])?
            } else {
                known += 1;
                self.read_one(text[text.len() - 1], known - 1)?
            };
            let next = choose(&logits, sampling, &mut random);
            if Some(next) == self.end {
                break;
            }
            text.push(next);
        }
        Ok(text.split_off(prompt.len()))
    }

    /// Enters a text into the empty cache; the scores of what follows it.
    fn read(&mut self, text: &[i32]) -> Result<Vec<f32>> {
        let (model, capacity) = (&self.model, self.capacity);
        let prefill = self
            .session
            .function(|cx| vec![("logits", model.prefill(cx, [1, text.len()], capacity))])?;
        let last = [text.len() as i32 - 1];
        let inputs = [("tokens", Host::I32(text)), ("position", Host::I32(&last))];
        let logits = self.logits(prefill, &inputs);
        self.session.unload(prefill);
        logits
    }

    /// Enters one more token at its place; the scores of what follows it.
    fn read_one(&mut self, token: i32, place: usize) -> Result<Vec<f32>> {
        let (token, place) = ([token], [place as i32]);
        let inputs = [("tokens", Host::I32(&token)), ("position", Host::I32(&place))];
        self.logits(self.decode, &inputs)
    }

    fn logits(&mut self, function: Function, inputs: &Inputs<'_>) -> Result<Vec<f32>> {
        let results = self.session.run(function, inputs)?;
        Ok(results.f32("logits").unwrap_or_default().to_vec())
    }
}

/// Draws a token.
fn choose(logits: &[f32], sampling: &Sampling, random: &mut SplitMix64) -> i32 {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    if sampling.temperature <= 0.0 {
        return order.first().map_or(0, |&token| token as i32);
    }
    order.truncate(sampling.top_k.unwrap_or(usize::MAX).max(1));
    let top = order.first().map_or(0.0, |&token| f64::from(logits[token]));
    let weight = |token: usize| ((f64::from(logits[token]) - top) / sampling.temperature).exp();
    let total: f64 = order.iter().map(|&token| weight(token)).sum();
    let mut rest = random.unit() * total;
    for &token in &order {
        rest -= weight(token);
        if rest < 0.0 {
            return token as i32;
        }
    }
    order.last().map_or(0, |&token| token as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 4] = [0.0, 2.0, 1.0, -30.0];

    fn shares(temperature: f64, top_k: Option<usize>) -> Vec<f64> {
        let sampling = Sampling {
            tokens: 1,
            temperature,
            top_k,
            seed: 3,
        };
        let mut random = SplitMix64::keyed(sampling.seed, 0);
        let mut counts = vec![0.0; LOGITS.len()];
        for _ in 0..20_000 {
            counts[choose(&LOGITS, &sampling, &mut random) as usize] += 1.0 / 20_000.0;
        }
        counts
    }

    #[test]
    fn tokens_are_drawn_as_often_as_the_softmax_says() {
        let total = 1.0 + 2f64.exp() + 1f64.exp();
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 0.02, "{found} for {expected}");
        let found = shares(1.0, None);
        [1.0, 2f64.exp(), 1f64.exp()]
            .iter()
            .zip(&found)
            .for_each(|(e, &f)| close(f, e / total));
        let found = shares(0.5, Some(2));
        close(found[1], 1.0 / (1.0 + (-2f64).exp()));
        assert_eq!((found[0], found[3]), (0.0, 0.0));
        assert_eq!(shares(0.0, None)[1..2].iter().sum::<f64>().round(), 1.0);
    }
}
