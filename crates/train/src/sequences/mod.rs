//! Texts that are continued together and begin and end at any time: between two tokens a text can join or leave.

mod place;

use self::place::{Place, Searching, Sequence};
use crate::generate::{Sampling, Search, end_tokens};
use crate::prefills::{Prefills, padded_lengths};
use crate::session::{Function, Inputs, Session};
use lessen_base::{Error, Result, SplitMix64};
use lessen_device::{DeviceMemory, Host};
use lessen_nn::Model;
use lessen_nn::models::decoder::Decoder;

/// A language model that continues texts, each with its own beginning, end and sampling.
pub struct Sequences {
    decoder: Decoder,
    session: Session,
    /// Most tokens of a text.
    context: usize,
    /// Most texts at once.
    most: usize,
    /// Places of texts and beams in the cache; empty ones are computed along and mean nothing.
    places: Vec<Option<Place>>,
    /// Whether texts can be searched with beams, so that places go on from other ones.
    has_beams: bool,
    /// The function that reads one more token of each place.
    decode: Option<Function>,
    /// Functions that read a prompt into a place.
    prefills: Prefills,
    /// Tokens that end a text.
    ends: Vec<i32>,
}

/// A text that was taken out before its end, to go on later.
pub struct Suspended(Sequence);

/// Whether a beam of the search in a place ends with its newest token, by the place, the beam's tokens, those of the
/// prompt among them, and the number of tokens of the prompt.
pub type IsBeamComplete<'a> = dyn Fn(usize, &[i32], usize) -> Result<bool> + 'a;

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
    /// The end of a search: the tokens of the best texts, as many as there are beams, the best first.
    Found(Vec<Vec<i32>>),
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
            has_beams: false,
            decode: None,
            prefills: Prefills::default(),
            ends: end_tokens(model.config_json().get("eos_token_id")),
        })
    }

    /// Ends texts at these tokens, in place of the end tokens of the model's `config.json`.
    pub fn end_at(&mut self, tokens: Vec<i32>) {
        self.ends = tokens;
    }

    /// Lets texts be searched with beams. Each step then copies the cache.
    pub fn allow_beams(&mut self) {
        self.has_beams = true;
    }

    /// The most tokens of a text, its prompt among them.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The number of texts; each beam of a search is one.
    pub fn len(&self) -> usize {
        self.places.iter().flatten().count()
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a text that is continued in this way can join.
    pub fn has_room_for(&self, sampling: &Sampling) -> bool {
        self.len() + places_of(sampling) <= self.most
    }

    /// The memory on the device.
    pub fn memory(&self) -> DeviceMemory {
        self.session.memory()
    }

    /// Adds a text that begins with `prompt`, or a search for its continuations, which takes a place for each beam;
    /// returns its place. Draws depend on the seed of `sampling` and on `number`, as those of the text of this number
    /// in [`Generator::generate_all`](crate::Generator::generate_all).
    ///
    /// # Errors
    /// Beams that are not allowed; a prompt without tokens, with more than the context, or with one that the model does
    /// not know; a number of `sampling` that is out of range; no room.
    pub fn join(&mut self, prompt: &[i32], sampling: &Sampling, number: u64) -> Result<usize> {
        sampling.check()?;
        if sampling.beams.is_some() && !self.has_beams {
            return Err(Error::user("texts here are not searched with beams; leave them out"));
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
        if !self.has_room_for(sampling) {
            return Err(Error::internal("a text joins where there is no place for it"));
        }
        let places = self.free_places(places_of(sampling))?;
        let place = places[0];
        let logits = self.prefill(place, prompt)?;
        self.places[place] = Some(match sampling.beams {
            Some(beams) => {
                for other in &places[1..] {
                    self.places[*other] = Some(Place::Beam);
                }
                let most = (self.context - prompt.len()).min(sampling.tokens);
                let search = Search::new(beams, prompt, most);
                Place::Searching(Searching::new(search, sampling.clone(), places, &logits))
            }
            None => Place::Text(Sequence {
                tokens: prompt.to_vec(),
                prompt: prompt.len(),
                sampling: sampling.clone(),
                random: SplitMix64::keyed(sampling.seed, number),
                logits: Some(logits),
            }),
        });
        Ok(place)
    }

    /// So many empty places, of which there are more if need be.
    fn free_places(&mut self, count: usize) -> Result<Vec<usize>> {
        loop {
            let empty = self.places.iter().enumerate().filter(|(_, place)| place.is_none());
            let empty: Vec<usize> = empty.map(|(number, _)| number).take(count).collect();
            if empty.len() == count {
                return Ok(empty);
            }
            self.resize((2 * self.places.len()).clamp(1, self.most))?;
        }
    }

    /// Takes a text or a search out.
    pub fn leave(&mut self, place: usize) {
        if let Some(Place::Searching(searching)) = self.places[place].take() {
            searching.places.iter().for_each(|own| self.places[*own] = None);
        }
    }

    /// Takes a text out before its end; none where the place has a search.
    pub fn suspend(&mut self, place: usize) -> Option<Suspended> {
        match self.places[place].take() {
            Some(Place::Text(text)) => Some(Suspended(text)),
            other => {
                self.places[place] = other;
                None
            }
        }
    }

    /// Lets a text that was taken out go on; returns its place. Its tokens are read again.
    ///
    /// # Errors
    /// No room, and a failure of the device.
    pub fn resume(&mut self, suspended: Suspended) -> Result<usize> {
        let Suspended(mut text) = suspended;
        if !self.has_room_for(&text.sampling) {
            return Err(Error::internal("a text goes on where there is no place for it"));
        }
        let place = self.free_places(1)?[0];
        text.logits = Some(self.prefill(place, &text.tokens)?);
        self.places[place] = Some(Place::Text(text));
        Ok(place)
    }

    /// Chooses the next token of every text and beam; what comes next in each text, and in each search that ends, with
    /// its place.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn step(&mut self, is_complete: &IsBeamComplete<'_>) -> Result<Vec<(usize, Next)>> {
        if self.places.iter().flatten().any(Place::is_unread) {
            self.read_newest()?;
        }
        let (ends, context) = (&self.ends, self.context);
        let next = |(number, place): (usize, &mut Option<Place>)| {
            let next = match place.as_mut()? {
                Place::Text(text) => text.next(ends, context),
                Place::Searching(searching) => {
                    searching.next(ends, &|tokens, prompt| is_complete(number, tokens, prompt))?
                }
                Place::Beam => return None,
            };
            Some((number, next))
        };
        Ok(self.places.iter_mut().enumerate().filter_map(next).collect())
    }

    /// Reads the newest token of all texts and beams whose next logits are unknown.
    fn read_newest(&mut self) -> Result<()> {
        let size = self.places.len();
        let decode = self.decode()?;
        // A place without a newest token to read is written where nobody reads before it is written again.
        let (mut tokens, mut positions) = (vec![0; size], vec![0; size]);
        let mut rows: Vec<i32> = (0..size).map(|place| place as i32).collect();
        let last = self.context - 1;
        for (number, place) in self.places.iter().enumerate() {
            let mut put = |place: usize, from: usize, text: &[i32], is_unread: bool| match text.split_last() {
                Some((newest, before)) if is_unread => {
                    (tokens[place], positions[place], rows[place]) = (*newest, before.len() as i32, from as i32);
                }
                _ => positions[place] = text.len().min(last) as i32,
            };
            match place {
                Some(Place::Text(text)) => put(number, number, &text.tokens, text.logits.is_none()),
                Some(Place::Searching(searching)) => searching.beams().for_each(|(place, from, tokens)| {
                    put(place, from, tokens, searching.is_unread());
                }),
                Some(Place::Beam) | None => {}
            }
        }
        let inputs: &Inputs<'_> = &[
            ("tokens", Host::I32(&tokens)),
            ("position", Host::I32(&positions)),
            ("rows", Host::I32(&rows)),
        ];
        let inputs = if self.has_beams { inputs } else { &inputs[..2] };
        let results = self.session.run(decode, inputs)?;
        let logits = results.f32("logits")?;
        let width = logits.len() / size;
        let of = |place: usize| &logits[place * width..][..width];
        for (number, place) in self.places.iter_mut().enumerate() {
            match place {
                Some(Place::Text(text)) if text.logits.is_none() => text.logits = Some(of(number).to_vec()),
                Some(Place::Searching(searching)) if searching.is_unread() => searching.read(of),
                _ => {}
            }
        }
        Ok(())
    }

    /// The function that reads one more token of each place.
    fn decode(&mut self) -> Result<Function> {
        if let Some(decode) = self.decode {
            return Ok(decode);
        }
        let (decoder, size, context) = (&self.decoder, self.places.len(), self.context);
        let has_beams = self.has_beams;
        let decode = self.session.function(|cx| {
            let logits = if has_beams {
                decoder.decode_reordered(cx, size, context)
            } else {
                decoder.decode(cx, size, context)
            };
            vec![("logits", logits)]
        })?;
        Ok(*self.decode.insert(decode))
    }

    /// The function that reads a prompt of `length` tokens into a place, and the length to which it is padded.
    fn prefill_of(&mut self, length: usize) -> Result<(Function, usize)> {
        let (decoder, size, context) = (&self.decoder, self.places.len(), self.context);
        let session = &mut self.session;
        self.prefills.at(length, context, |length| {
            session.function(|cx| vec![("logits", decoder.prefill_one(cx, length, [size, context]))])
        })
    }

    /// Reads a prompt into a place of the cache; the logits of the token after it.
    fn prefill(&mut self, place: usize, prompt: &[i32]) -> Result<Vec<f32>> {
        let (prefill, length) = self.prefill_of(prompt.len())?;
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

    /// Compiles the functions of a single text, for prompts of all lengths, after those of as many texts as there may
    /// be, so that all memory has been allocated once.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn warm_up(&mut self) -> Result<()> {
        for size in [self.most, 1] {
            self.resize(size)?;
            for length in padded_lengths(self.context) {
                self.prefill_of(length)?;
            }
            self.decode()?;
            self.session.reserve()?;
        }
        Ok(())
    }

    /// Changes the number of places to `size`; the texts stay at theirs.
    fn resize(&mut self, size: usize) -> Result<()> {
        for function in self.prefills.take().chain(self.decode.take()) {
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

/// The places that a text takes: one for each beam.
fn places_of(sampling: &Sampling) -> usize {
    sampling.beams.map_or(1, |beams| beams.count)
}
