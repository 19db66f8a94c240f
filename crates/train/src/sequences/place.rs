//! What stands in a place of the cache: a text, or a beam of a search.

use super::Next;
use crate::generate::{IsComplete, Sampling, Search, SoFar};
use lessen_base::{Error, SplitMix64};

/// What stands in a place.
pub(super) enum Place {
    /// A text.
    Text(Sequence),
    /// A search, in the place of its first beam.
    Searching(Searching),
    /// Another beam of a search.
    Beam,
}

impl Place {
    /// Whether its newest token is to be read before the next one is chosen.
    pub(super) fn is_unread(&self) -> bool {
        match self {
            Place::Text(text) => text.logits.is_none(),
            Place::Searching(searching) => searching.is_unread(),
            Place::Beam => false,
        }
    }
}

/// A text.
pub(super) struct Sequence {
    pub(super) tokens: Vec<i32>,
    /// Tokens of the prompt.
    pub(super) prompt: usize,
    pub(super) sampling: Sampling,
    pub(super) random: SplitMix64,
    /// Logits of the next token, where they are known.
    pub(super) logits: Option<Vec<f32>>,
}

impl Sequence {
    /// Chooses the next token.
    pub(super) fn next(&mut self, ends: &[i32], context: usize) -> Next {
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

/// A search for the best continuations of a prompt.
pub(super) struct Searching {
    search: Search,
    sampling: Sampling,
    /// The places of the beams.
    pub(super) places: Vec<usize>,
    /// The place whose keys and values each beam goes on from.
    from: Vec<usize>,
    /// Logits of the next token of each beam, one beam after another, where they are known.
    logits: Option<Vec<f32>>,
}

impl Searching {
    /// A search whose prompt has been read into the first of these places, with the logits of the token after it.
    pub(super) fn new(search: Search, sampling: Sampling, places: Vec<usize>, logits: &[f32]) -> Searching {
        Searching {
            search,
            sampling,
            from: vec![places[0]; places.len()],
            logits: Some(logits.repeat(places.len())),
            places,
        }
    }

    /// Whether the newest tokens of the beams are to be read.
    pub(super) fn is_unread(&self) -> bool {
        self.logits.is_none() && !self.search.ended
    }

    /// The place of each beam, the place that it goes on from, and its tokens.
    pub(super) fn beams(&self) -> impl Iterator<Item = (usize, usize, &[i32])> {
        let places = self.places.iter().zip(&self.from);
        let beams = places.zip(&self.search.running);
        beams.map(|((place, from), beam)| (*place, *from, beam.tokens.as_slice()))
    }

    /// Takes the logits of each place.
    pub(super) fn read<'a>(&mut self, of: impl Fn(usize) -> &'a [f32]) {
        self.logits = Some(self.places.iter().flat_map(|place| of(*place)).copied().collect());
    }

    /// Chooses the next tokens of the beams; what has been found, where the search ends.
    pub(super) fn next(&mut self, ends: &[i32], is_complete: &IsComplete<'_>) -> Option<Next> {
        let logits = self.logits.take()?;
        let rules = (&self.sampling.rules, self.sampling.renormalize);
        match self.search.step(&logits, rules, ends, is_complete) {
            Err(error) => Some(Next::Failed(error)),
            Ok(parents) => {
                self.from = parents.into_iter().map(|parent| self.places[parent]).collect();
                let ended = self.search.ended;
                ended.then(|| Next::Found(self.search.results(self.places.len(), ends)))
            }
        }
    }
}
