//! Generation of texts token by token, with a cache of keys and values.

mod beams;
mod most_likely;
mod rules;
mod sampling;

pub(crate) use beams::Search;
pub use beams::{Beams, EarlyStopping};
pub use rules::Rules;
pub(crate) use rules::SoFar;
pub use sampling::Sampling;

use crate::prefills::Prefills;
use crate::session::{Function, Inputs, Session};
use lessen_base::{Error, Result, SplitMix64};
use lessen_device::Host;
use lessen_nn::Model;
use lessen_nn::models::decoder::Decoder;
use serde_json::Value;

/// Called after each token with the number of a text and all tokens that were added to it.
pub type Each<'a> = dyn FnMut(usize, &[i32]) -> Result<()> + 'a;

/// Whether a text ends with its newest token, by its tokens, those of the prompt among them, and the number of tokens
/// of the prompt.
pub type IsComplete<'a> = dyn Fn(&[i32], usize) -> Result<bool> + 'a;

/// A language model that continues texts, several at once.
pub struct Generator {
    decoder: Decoder,
    session: Session,
    /// Number of texts of the cache and of all functions; 0 where there are none.
    size: usize,
    /// Functions that read prompts.
    prefills: Prefills,
    /// The function that reads one more token of each text.
    decode: Option<Decode>,
    capacity: usize,
    /// Tokens that end a text.
    ends: Vec<i32>,
}

/// A function that reads one more token of each text.
#[derive(Clone, Copy)]
struct Decode {
    /// Whether it copies rows of the cache first.
    reorders: bool,
    function: Function,
}

/// A text that is continued.
struct Text {
    tokens: Vec<i32>,
    /// Tokens of the prompt.
    prompt: usize,
    /// Tokens that are added at most.
    most: usize,
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
            size: 0,
            prefills: Prefills::default(),
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
        let mut added = self.generate_all(&[prompt], 1, sampling, &|_, _| Ok(false), &mut |_, _| Ok(()))?;
        Ok(added.pop().unwrap_or_default())
    }

    /// [`Generator::generate`] of several prompts, each `samples` times, all at once. The result has the texts of the
    /// first prompt, then the texts of the second prompt, and so on. The draws of a text depend on the seed and the
    /// text's number. A text also ends with a token with which it `is_complete`, which is kept; so do beams.
    ///
    /// # Errors
    /// A prompt without tokens, or with one that the model does not know; more texts than the memory holds; a number of
    /// `sampling` that is out of range; logits that are NaN; the errors of `is_complete` and `each`.
    pub fn generate_all(
        &mut self,
        prompts: &[&[i32]],
        samples: usize,
        sampling: &Sampling,
        is_complete: &IsComplete<'_>,
        each: &mut Each<'_>,
    ) -> Result<Vec<Vec<i32>>> {
        sampling.check()?;
        if prompts.iter().any(|prompt| prompt.is_empty()) {
            return Err(Error::user("a prompt has no tokens; give at least one"));
        }
        if let Some(beams) = sampling.beams {
            return self.search(prompts, (samples, beams), sampling, is_complete, each);
        }
        let all = prompts.iter().flat_map(|prompt| std::iter::repeat_n(prompt, samples));
        let texts = all.enumerate().map(|(number, prompt)| {
            let random = SplitMix64::keyed(sampling.seed, number as u64);
            Ok(Text::new(prompt, most_tokens(prompt, sampling)?, random))
        });
        let mut texts: Vec<Text> = texts.collect::<Result<_>>()?;
        while texts.iter().any(|text| !text.ended) {
            let logits = self.next_logits(&mut texts, None)?;
            let width = logits.len() / texts.len();
            for (number, text) in texts.iter_mut().enumerate().filter(|(_, text)| !text.ended) {
                let logits = &logits[number * width..][..width];
                let so_far = SoFar {
                    tokens: &text.tokens,
                    prompt: text.prompt,
                    most: text.most,
                    ends: &self.ends,
                };
                let next = sampling.choose(logits, so_far, &mut text.random)?;
                text.ended = self.ends.contains(&next);
                if !text.ended {
                    text.tokens.push(next);
                    each(number, &text.tokens[text.prompt..])?;
                    text.ended =
                        text.tokens.len() - text.prompt >= text.most || is_complete(&text.tokens, text.prompt)?;
                }
            }
        }
        Ok(texts
            .into_iter()
            .map(|mut text| text.tokens.split_off(text.prompt))
            .collect())
    }

    /// [`Generator::generate_all`] by beam search: the best texts of each prompt, as many as `samples`. `each` gets
    /// each text once.
    fn search(
        &mut self,
        prompts: &[&[i32]],
        (samples, beams): (usize, Beams),
        sampling: &Sampling,
        is_complete: &IsComplete<'_>,
        each: &mut Each<'_>,
    ) -> Result<Vec<Vec<i32>>> {
        if samples > beams.count {
            return Err(Error::user(format!(
                "samples {samples} makes no sense with {} beams; choose as many beams at least",
                beams.count
            )));
        }
        let (mut searches, mut texts) = (Vec::new(), Vec::new());
        for prompt in prompts {
            let most = most_tokens(prompt, sampling)?;
            searches.push(Search::new(beams, prompt, most));
            texts.extend((0..beams.count).map(|_| Text::new(prompt, most, SplitMix64::keyed(sampling.seed, 0))));
        }
        let mut rows: Vec<usize> = (0..texts.len()).collect();
        while searches.iter().any(|search| !search.ended) {
            let logits = self.next_logits(&mut texts, Some(&rows))?;
            let width = logits.len() / texts.len() * beams.count;
            for (number, search) in searches.iter_mut().enumerate() {
                let first = number * beams.count;
                let own = &mut texts[first..][..beams.count];
                if !search.ended {
                    let logits = &logits[number * width..][..width];
                    let parents =
                        search.step(logits, (&sampling.rules, sampling.renormalize), &self.ends, is_complete)?;
                    for (row, parent) in rows[first..].iter_mut().zip(parents) {
                        *row = first + parent;
                    }
                    for (text, beam) in own.iter_mut().zip(&search.running) {
                        text.tokens.clone_from(&beam.tokens);
                    }
                }
                own.iter_mut().for_each(|text| text.ended = search.ended);
            }
        }
        let found = searches.iter().flat_map(|search| search.results(samples, &self.ends));
        let found: Vec<Vec<i32>> = found.collect();
        for (number, text) in found.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            each(number, text)?;
        }
        Ok(found)
    }

    /// Logits of the next token of each text, `[B, vocabulary]`. Logits of complete texts mean nothing. `rows` are the
    /// texts that each text continues; without them it continues itself.
    fn next_logits(&mut self, texts: &mut [Text], rows: Option<&[usize]>) -> Result<Vec<f32>> {
        let is_unread = |text: &Text| !text.ended && (text.known == 0 || text.known == self.capacity);
        if texts.iter().any(is_unread) {
            return self.read(texts);
        }
        let decode = self.decode(rows.is_some())?;
        let (mut tokens, mut places) = (Vec::new(), Vec::new());
        for text in texts.iter_mut() {
            tokens.push(text.tokens[text.tokens.len() - 1]);
            places.push(if text.ended { 0 } else { text.known as i32 });
            text.known += usize::from(!text.ended);
        }
        let rows: Vec<i32> = rows.unwrap_or_default().iter().map(|&row| row as i32).collect();
        self.run(decode, &tokens, &places, &rows)
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
        let (size, longest) = (texts.len(), texts.iter().map(|text| text.known).max().unwrap_or(1));
        self.resize(size)?;
        let (decoder, capacity, session) = (&self.decoder, self.capacity, &mut self.session);
        let (prefill, length) = self.prefills.at(longest, capacity, |length| {
            session.function(|cx| vec![("logits", decoder.prefill(cx, [size, length], capacity))])
        })?;
        let mut tokens = Vec::with_capacity(size * length);
        for (row, text) in texts.iter().enumerate() {
            tokens.extend_from_slice(&text.tokens[text.tokens.len() - text.known..]);
            // Tokens after the end of a text are padding that it does not see.
            tokens.resize((row + 1) * length, 0);
        }
        let places: Vec<i32> = texts.iter().map(|text| text.known as i32 - 1).collect();
        self.run(prefill, &tokens, &places, &[])
    }

    /// The function that reads one more token of each text.
    fn decode(&mut self, reorders: bool) -> Result<Function> {
        if let Some(own) = self.decode {
            if own.reorders == reorders {
                return Ok(own.function);
            }
            self.session.unload(own.function)?;
            self.decode = None;
        }
        let (decoder, size, capacity) = (&self.decoder, self.size, self.capacity);
        let function = self.session.function(|cx| {
            let logits = if reorders {
                decoder.decode_reordered(cx, size, capacity)
            } else {
                decoder.decode(cx, size, capacity)
            };
            vec![("logits", logits)]
        })?;
        self.decode = Some(Decode { reorders, function });
        Ok(function)
    }

    /// Makes room for `size` texts: frees functions and cache of another number.
    fn resize(&mut self, size: usize) -> Result<()> {
        if self.size != size {
            let decode = self.decode.take().map(|own| own.function);
            for function in self.prefills.take().chain(decode) {
                self.session.unload(function)?;
            }
            for cache in self.decoder.cache_states(self.size, self.capacity) {
                self.session.free(&cache.name);
            }
            self.size = size;
        }
        Ok(())
    }

    fn run(&mut self, function: Function, tokens: &[i32], places: &[i32], rows: &[i32]) -> Result<Vec<f32>> {
        let all: &Inputs<'_> = &[
            ("tokens", Host::I32(tokens)),
            ("position", Host::I32(places)),
            ("rows", Host::I32(rows)),
        ];
        let inputs = if rows.is_empty() { &all[..2] } else { all };
        let results = self.session.run(function, inputs)?;
        Ok(results.f32("logits")?.to_vec())
    }
}

impl Text {
    /// A prompt to which at most `most` tokens are added.
    fn new(prompt: &[i32], most: usize, random: SplitMix64) -> Text {
        Text {
            tokens: prompt.to_vec(),
            prompt: prompt.len(),
            most,
            known: 0,
            random,
            ended: most == 0,
        }
    }
}

/// Tokens that are added to a prompt at most.
///
/// # Errors
/// A prompt that is as long as a text may be.
fn most_tokens(prompt: &[i32], sampling: &Sampling) -> Result<usize> {
    match sampling.max_length {
        Some(most) if most <= prompt.len() => Err(Error::user(format!(
            "the prompt has {} tokens, and max_length of generation_config.json leaves no room after {most}; give --tokens",
            prompt.len()
        ))),
        Some(most) => Ok(sampling.tokens.min(most - prompt.len())),
        None => Ok(sampling.tokens),
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
