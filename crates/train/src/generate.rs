//! Generation of texts token by token, with a cache of keys and values.

use crate::sampling::Sampling;
use crate::session::{Function, Inputs, Session};
use lessen_base::{Error, Result, SplitMix64};
use lessen_device::Host;
use lessen_nn::Model;
use lessen_nn::models::decoder::Decoder;
use serde_json::Value;
use std::ops::ControlFlow;

/// Called after each token with the number of a text and all tokens that were added to it; [`ControlFlow::Break`] ends
/// the text.
pub type Each<'a> = dyn FnMut(usize, &[i32]) -> Result<ControlFlow<()>> + 'a;

/// A language model that continues texts, several at once.
pub struct Generator {
    decoder: Decoder,
    session: Session,
    /// The function that reads one more token of each text, and the number of texts.
    decode: Option<(usize, Function)>,
    capacity: usize,
    /// Tokens that end a text.
    ends: Vec<i32>,
}

/// A text that is continued.
struct Text {
    tokens: Vec<i32>,
    /// Tokens of the prompt.
    prompt: usize,
    /// Tokens in the cache: the last ones of the text before its newest.
    known: usize,
    random: SplitMix64,
    /// Whether the text is complete.
    ended: bool,
}

impl Generator {
    /// Prepares a language model whose parameters a session has. The cache keeps `most` tokens of each text, or as many
    /// as the model has positions, if it has fewer.
    ///
    /// # Errors
    /// A model that is no language model.
    pub fn new(session: Session, model: &Model, most: usize) -> Result<Generator> {
        let Some(decoder) = model.decoder() else {
            return Err(Error::user(
                "this model is a classifier, which continues no texts; take a language model",
            ));
        };
        Ok(Generator {
            decoder,
            session,
            decode: None,
            capacity: most.clamp(1, model.max_length().unwrap_or(usize::MAX).max(1)),
            ends: end_tokens(model.config_json().get("eos_token_id")),
        })
    }

    /// Ends texts at these tokens, in place of the end tokens of the model's `config.json`.
    pub fn end_at(&mut self, tokens: Vec<i32>) {
        self.ends = tokens;
    }

    /// Tokens after `prompt`, up to a token that ends a text, which is left out. A text of more tokens than the cache
    /// keeps is continued from its last half.
    ///
    /// # Errors
    /// As [`Generator::generate_all`].
    pub fn generate(&mut self, prompt: &[i32], sampling: &Sampling) -> Result<Vec<i32>> {
        let mut added = self.generate_all(&[prompt], 1, sampling, &mut |_, _| Ok(ControlFlow::Continue(())))?;
        Ok(added.pop().unwrap_or_default())
    }

    /// [`Generator::generate`] of several prompts, each `samples` times, all at once. The result has the texts of the
    /// first prompt, then the texts of the second prompt, and so on. The draws of a text depend on the seed and the
    /// text's number.
    ///
    /// # Errors
    /// A prompt without tokens, or with one that the model does not know; more texts than the memory holds; a number of
    /// `sampling` that is out of range; logits that are no numbers; the errors of `each`.
    pub fn generate_all(
        &mut self,
        prompts: &[&[i32]],
        samples: usize,
        sampling: &Sampling,
        each: &mut Each<'_>,
    ) -> Result<Vec<Vec<i32>>> {
        sampling.check()?;
        if prompts.iter().any(|prompt| prompt.is_empty()) {
            return Err(Error::user("a prompt has no tokens; give at least one"));
        }
        let all = prompts.iter().flat_map(|prompt| std::iter::repeat_n(prompt, samples));
        let texts = all.enumerate().map(|(number, prompt)| Text {
            tokens: prompt.to_vec(),
            prompt: prompt.len(),
            known: 0,
            random: SplitMix64::keyed(sampling.seed, number as u64),
            ended: false,
        });
        let mut texts: Vec<Text> = texts.collect();
        for _ in 0..sampling.tokens {
            if texts.iter().all(|text| text.ended) {
                break;
            }
            let logits = self.next_logits(&mut texts)?;
            let width = logits.len() / texts.len();
            for (number, text) in texts.iter_mut().enumerate().filter(|(_, text)| !text.ended) {
                let logits = &logits[number * width..][..width];
                let next = sampling.choose(logits, &text.tokens, &mut text.random)?;
                text.ended = self.ends.contains(&next);
                if !text.ended {
                    text.tokens.push(next);
                    text.ended = each(number, &text.tokens[text.prompt..])?.is_break();
                }
            }
        }
        Ok(texts
            .into_iter()
            .map(|mut text| text.tokens.split_off(text.prompt))
            .collect())
    }

    /// Logits of the next token of each text, `[B, vocabulary]`. Logits of complete texts mean nothing.
    fn next_logits(&mut self, texts: &mut [Text]) -> Result<Vec<f32>> {
        let is_unread = |text: &Text| !text.ended && (text.known == 0 || text.known == self.capacity);
        if texts.iter().any(is_unread) {
            return self.read(texts);
        }
        let decode = self.decode(texts.len())?;
        let (mut tokens, mut places) = (Vec::new(), Vec::new());
        for text in texts.iter_mut() {
            tokens.push(text.tokens[text.tokens.len() - 1]);
            places.push(if text.ended { 0 } else { text.known as i32 });
            text.known += usize::from(!text.ended);
        }
        self.run(decode, &tokens, &places)
    }

    /// Fills the cache from its start with the end of each text.
    fn read(&mut self, texts: &mut [Text]) -> Result<Vec<f32>> {
        let half = (self.capacity / 2).max(1);
        for text in texts.iter_mut() {
            text.known = match text.known {
                _ if text.ended => 1,
                0 if text.tokens.len() <= self.capacity => text.tokens.len(),
                known if known > 0 && known < self.capacity => known + 1,
                _ => half,
            };
        }
        let (size, length) = (texts.len(), texts.iter().map(|text| text.known).max().unwrap_or(1));
        let mut tokens = Vec::with_capacity(size * length);
        for (row, text) in texts.iter().enumerate() {
            tokens.extend_from_slice(&text.tokens[text.tokens.len() - text.known..]);
            // Tokens after the end of a text are padding that it does not see.
            tokens.resize((row + 1) * length, 0);
        }
        let places: Vec<i32> = texts.iter().map(|text| text.known as i32 - 1).collect();
        self.free_cache_unless(size)?;
        let (decoder, capacity) = (&self.decoder, self.capacity);
        let prefill = self
            .session
            .function(|cx| vec![("logits", decoder.prefill(cx, [size, length], capacity))])?;
        let logits = self.run(prefill, &tokens, &places);
        self.session.unload(prefill)?;
        logits
    }

    /// The function that reads one more token of each text, for `size` texts.
    fn decode(&mut self, size: usize) -> Result<Function> {
        if let Some((_, decode)) = self.decode.filter(|(own, _)| *own == size) {
            return Ok(decode);
        }
        let (decoder, capacity) = (&self.decoder, self.capacity);
        let decode = self
            .session
            .function(|cx| vec![("logits", decoder.decode(cx, size, capacity))])?;
        self.decode = Some((size, decode));
        Ok(decode)
    }

    /// Frees the cache of another number of texts.
    fn free_cache_unless(&mut self, size: usize) -> Result<()> {
        if let Some((own, decode)) = self.decode.filter(|(own, _)| *own != size) {
            self.session.unload(decode)?;
            self.decode = None;
            for cache in self.decoder.cache_states(own, self.capacity) {
                self.session.free(&cache.name);
            }
        }
        Ok(())
    }

    fn run(&mut self, function: Function, tokens: &[i32], places: &[i32]) -> Result<Vec<f32>> {
        let inputs: &Inputs<'_> = &[("tokens", Host::I32(tokens)), ("position", Host::I32(places))];
        let results = self.session.run(function, inputs)?;
        Ok(results.f32("logits")?.to_vec())
    }
}

/// The tokens of the field `eos_token_id`: one, or a list.
pub(crate) fn end_tokens(field: Option<&Value>) -> Vec<i32> {
    let list = match field {
        Some(Value::Array(list)) => list.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    let ids = list.iter().filter_map(|id| i32::try_from(id.as_i64()?).ok());
    ids.collect()
}
