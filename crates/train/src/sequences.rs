//! Texts that are continued together and begin and end at any time: between two tokens a text can join or leave.

use crate::generate::{Sampling, SoFar, end_tokens};
use crate::session::{Function, Inputs, Session};
use lessen_base::{Error, Result, SplitMix64};
use lessen_device::{DeviceMemory, Host};
use lessen_nn::Model;
use lessen_nn::models::decoder::Decoder;
use std::collections::BTreeMap;

/// A language model that continues texts, each with its own beginning, end and sampling.
pub struct Sequences {
    decoder: Decoder,
    session: Session,
    /// Most tokens of a text.
    context: usize,
    /// Most texts at once.
    most: usize,
    /// Places of texts in the cache; empty ones are computed along and mean nothing.
    places: Vec<Option<Sequence>>,
    /// The function that reads one more token of each place.
    decode: Option<Function>,
    /// Functions that read a prompt, by the lengths to which prompts are padded.
    prefills: BTreeMap<usize, Function>,
    /// Tokens that end a text.
    ends: Vec<i32>,
}

/// A text.
struct Sequence {
    tokens: Vec<i32>,
    /// Tokens of the prompt.
    prompt: usize,
    sampling: Sampling,
    random: SplitMix64,
    /// Logits of the next token, where they are known.
    logits: Option<Vec<f32>>,
}

/// What comes next in a text.
#[derive(Debug)]
pub enum Next {
    /// A token.
    Token(i32),
    /// The end: a token that ends texts, or the most tokens of a text.
    End {
        /// Whether the text has as many tokens as it can have.
        is_full: bool,
    },
    /// No token can be chosen.
    Failed(Error),
}

impl Sequences {
    /// Prepares a language model whose parameters a session has, for at most `most` texts at once of at most `context`
    /// tokens each, or as many as the model has positions, if it has fewer.
    ///
    /// # Errors
    /// A model that is no language model.
    pub fn new(session: Session, model: &Model, context: usize, most: usize) -> Result<Sequences> {
        let Some(decoder) = model.decoder() else {
            return Err(Error::user(
                "this model is a classifier, which continues no texts; take a language model",
            ));
        };
        Ok(Sequences {
            decoder,
            session,
            context: context.clamp(1, model.max_length().unwrap_or(usize::MAX).max(1)),
            most: most.max(1),
            places: Vec::new(),
            decode: None,
            prefills: BTreeMap::new(),
            ends: end_tokens(model.config_json().get("eos_token_id")),
        })
    }

    /// Ends texts at these tokens, in place of the end tokens of the model's `config.json`.
    pub fn end_at(&mut self, tokens: Vec<i32>) {
        self.ends = tokens;
    }

    /// The most tokens of a text, its prompt among them.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The number of texts.
    pub fn len(&self) -> usize {
        self.places.iter().flatten().count()
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether another text can join.
    pub fn has_room(&self) -> bool {
        self.len() < self.most
    }

    /// The memory on the device.
    pub fn memory(&self) -> DeviceMemory {
        self.session.memory()
    }

    /// Adds a text that begins with `prompt`; returns its place. Draws depend on the seed of `sampling` and on
    /// `number`, as those of the text of this number in [`Generator::generate_all`](crate::Generator::generate_all).
    ///
    /// # Errors
    /// Beams; a prompt without tokens, with more than the context, or with one that the model does not know; a number
    /// of `sampling` that is out of range; texts at all places.
    pub fn join(&mut self, prompt: &[i32], sampling: &Sampling, number: u64) -> Result<usize> {
        sampling.check()?;
        if sampling.beams.is_some() {
            return Err(Error::user(
                "beams are not for texts that join and leave; leave them out",
            ));
        }
        if prompt.is_empty() {
            return Err(Error::user("a prompt has no tokens; give at least one"));
        }
        if prompt.len() > self.context {
            return Err(Error::user(format!(
                "a prompt of {} tokens is longer than the {} that a text can have; shorten it",
                prompt.len(),
                self.context
            )));
        }
        if !self.has_room() {
            return Err(Error::internal("a text joins where there is no place for it"));
        }
        let place = match self.places.iter().position(Option::is_none) {
            Some(place) => place,
            None => {
                let place = self.places.len();
                self.resize((2 * place).clamp(1, self.most))?;
                place
            }
        };
        let logits = self.prefill(place, prompt)?;
        self.places[place] = Some(Sequence {
            tokens: prompt.to_vec(),
            prompt: prompt.len(),
            sampling: sampling.clone(),
            random: SplitMix64::keyed(sampling.seed, number),
            logits: Some(logits),
        });
        Ok(place)
    }

    /// Takes a text out.
    pub fn leave(&mut self, place: usize) {
        self.places[place] = None;
    }

    /// Chooses the next token of every text; each with its place.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn step(&mut self) -> Result<Vec<(usize, Next)>> {
        if self.places.iter().flatten().any(|text| text.logits.is_none()) {
            self.read_newest()?;
        }
        let (ends, context) = (&self.ends, self.context);
        let texts = self.places.iter_mut().enumerate();
        let next = texts.filter_map(|(place, text)| Some((place, text.as_mut()?.next(ends, context))));
        Ok(next.collect())
    }

    /// Reads the newest token of all texts whose next logits are unknown.
    fn read_newest(&mut self) -> Result<()> {
        let size = self.places.len();
        let decode = match self.decode {
            Some(decode) => decode,
            None => {
                let (decoder, context) = (&self.decoder, self.context);
                let decode = self
                    .session
                    .function(|cx| vec![("logits", decoder.decode(cx, size, context))])?;
                *self.decode.insert(decode)
            }
        };
        // A place without a newest token to read is written where nobody reads before it is written again.
        let newest = |text: &Option<Sequence>| match text {
            Some(text) if text.logits.is_none() => (text.tokens[text.tokens.len() - 1], text.tokens.len() - 1),
            Some(text) => (0, text.tokens.len().min(self.context - 1)),
            None => (0, 0),
        };
        let (mut tokens, mut positions) = (Vec::with_capacity(size), Vec::with_capacity(size));
        for (token, position) in self.places.iter().map(newest) {
            tokens.push(token);
            positions.push(position as i32);
        }
        let inputs: &Inputs<'_> = &[("tokens", Host::I32(&tokens)), ("position", Host::I32(&positions))];
        let results = self.session.run(decode, inputs)?;
        let logits = results.f32("logits")?;
        let width = logits.len() / size;
        for (place, text) in self.places.iter_mut().enumerate() {
            if let Some(text) = text.as_mut().filter(|text| text.logits.is_none()) {
                text.logits = Some(logits[place * width..][..width].to_vec());
            }
        }
        Ok(())
    }

    /// Reads a prompt into a place of the cache; the logits of the token after it.
    fn prefill(&mut self, place: usize, prompt: &[i32]) -> Result<Vec<f32>> {
        let length = padded(prompt.len()).min(self.context);
        let size = self.places.len();
        let prefill = match self.prefills.get(&length) {
            Some(prefill) => *prefill,
            None => {
                let (decoder, context) = (&self.decoder, self.context);
                let prefill = self
                    .session
                    .function(|cx| vec![("logits", decoder.prefill_one(cx, length, [size, context]))])?;
                self.prefills.insert(length, prefill);
                prefill
            }
        };
        let mut tokens = prompt.to_vec();
        tokens.resize(length, 0);
        let start = i32::try_from(place.saturating_mul(self.context))
            .map_err(|_| Error::user("the cache of keys and values is too large; lower the context"))?;
        let inputs: &Inputs<'_> = &[
            ("tokens", Host::I32(&tokens)),
            ("position", Host::I32(&[prompt.len() as i32 - 1])),
            ("start", Host::I32(&[start])),
        ];
        let results = self.session.run(prefill, inputs)?;
        Ok(results.f32("logits")?.to_vec())
    }

    /// Compiles the functions of a single text, for prompts of all lengths, and allocates the largest cache.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn warm_up(&mut self) -> Result<()> {
        for size in [self.most, 1] {
            self.resize(size)?;
            let mut length = 1;
            loop {
                self.prefill(0, &vec![0; length.min(self.context)])?;
                if length >= self.context {
                    break;
                }
                length = padded(length) + 1;
            }
            self.read_newest()?;
        }
        Ok(())
    }

    /// Changes the number of places to `size`; the texts stay at theirs.
    fn resize(&mut self, size: usize) -> Result<()> {
        for function in std::mem::take(&mut self.prefills)
            .into_values()
            .chain(self.decode.take())
        {
            self.session.unload(function)?;
        }
        let is_kept = !self.is_empty();
        for state in self.decoder.cache_states(size, self.context) {
            // Texts follow each other in the cache, so that those of the old one are the first of the new one.
            let old = is_kept.then(|| self.session.state(&state.name)).transpose()?;
            self.session.free(&state.name);
            self.session.allocate(&state.name, &state.ty())?;
            if let Some(old) = old {
                self.session.set_state_part(&state.name, &old)?;
            }
        }
        self.places.resize_with(size, || None);
        Ok(())
    }

    /// Gives memory back that texts at once took, where there is no text any more.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn shrink(&mut self) -> Result<()> {
        if self.is_empty() && self.places.len() > 1 {
            self.places.clear();
            self.resize(1)?;
        }
        Ok(())
    }
}

impl Sequence {
    /// Chooses the next token.
    fn next(&mut self, ends: &[i32], context: usize) -> Next {
        let Some(logits) = self.logits.take() else {
            return Next::Failed(Error::internal("a token is chosen without logits"));
        };
        let most = context.saturating_sub(self.prompt).min(self.sampling.tokens);
        let so_far = SoFar {
            tokens: &self.tokens,
            prompt: self.prompt,
            most,
            ends,
        };
        match self.sampling.choose(&logits, so_far, &mut self.random) {
            Err(error) => Next::Failed(error),
            Ok(token) if ends.contains(&token) => Next::End { is_full: false },
            Ok(_) if self.tokens.len() >= context => Next::End { is_full: true },
            Ok(token) => {
                self.tokens.push(token);
                Next::Token(token)
            }
        }
    }
}

/// The length to which a prompt is padded: a power of two, or one and a half of one, from 16 on.
fn padded(length: usize) -> usize {
    let power = length.next_power_of_two().max(16);
    if length <= power / 4 * 3 && power > 16 {
        power / 4 * 3
    } else {
        power
    }
}
