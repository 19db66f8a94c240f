//! Requests to continue texts.

use super::events::{Event, Outlet};
use crate::given::Prompt;
use crate::memory::Share;
use crate::queue::Waiting;
use crate::refusal::Refusal;
use lessen_train::Sampling;
use std::time::Instant;

/// Milliseconds that a request waits for each of its turns that have begun.
const TURN: i64 = 5000;

/// The rank of a new request: another one goes before it that has waited so much longer than its turns ask.
pub(super) const NEW: i64 = -2 * TURN;

/// Tokens of a text beyond which a request is not counted as more work, since most texts end before.
const USUAL: usize = 1024;

/// A request to continue texts.
pub struct ContinueJob {
    /// The prompts, at least one.
    pub prompts: Vec<Prompt>,
    /// Whether special tokens stand in the texts of prompts, so that none are added.
    pub is_rendered: bool,
    /// Name of the field that has the prompts.
    pub field: &'static str,
    /// Texts for each prompt.
    pub samples: usize,
    /// How tokens are chosen, and where the request does not say it, how many are added at most.
    pub sampling: Sampling,
    /// The most tokens to add, and the name of the field of the request that says it.
    pub tokens: Option<(usize, &'static str)>,
    /// Strings before which a text ends.
    pub stops: Vec<String>,
    /// When its client stops waiting.
    pub deadline: Instant,
    /// Where the texts go.
    pub events: Outlet,
    /// The request's share of the memory for bodies, free again when its texts have ended.
    pub _share: Share,
}

impl Waiting for ContinueJob {
    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn is_gone(&self) -> bool {
        self.events.is_closed()
    }

    fn work(&self) -> u64 {
        let asked = self.tokens.map_or(self.sampling.tokens, |(tokens, _)| tokens);
        let each = asked.min(USUAL).saturating_mul(self.samples);
        (each.saturating_mul(self.prompts.len())) as u64
    }

    fn refuse(self, refusal: Refusal) {
        // A client that has gone needs no answer.
        let _ = self.events.send(Event::Refused(refusal));
    }
}

/// A request whose prompts are tokens. It is answered in turns: a turn continues one text, or searches the best texts
/// of one prompt.
pub(super) struct Begun {
    /// When it was read.
    pub(super) since: Instant,
    pub(super) job: ContinueJob,
    pub(super) prompts: Vec<Vec<i32>>,
    /// The most tokens to add to each prompt.
    pub(super) most: Vec<usize>,
    /// The number of the next turn to begin.
    pub(super) next: usize,
    /// Turns that have begun and not ended.
    pub(super) open: usize,
}

impl Begun {
    /// The less it is, the sooner the request has its next turn: milliseconds of its turns less its age.
    pub(super) fn rank(&self) -> i64 {
        let of = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
        let turns = match self.next {
            0 => NEW,
            turns => of(turns as u128).saturating_mul(TURN),
        };
        turns.saturating_sub(of(self.since.elapsed().as_millis()))
    }

    /// The number of texts that a turn gives.
    pub(super) fn texts_of_turn(&self) -> usize {
        self.job.sampling.beams.map_or(1, |_| self.job.samples)
    }

    /// The number of the prompt that a text continues.
    pub(super) fn prompt_of(&self, text: usize) -> usize {
        text / self.job.samples
    }

    /// Whether every turn has begun.
    pub(super) fn has_all_begun(&self) -> bool {
        self.next * self.texts_of_turn() >= self.prompts.len() * self.job.samples
    }

    /// Whether every turn has ended.
    pub(super) fn is_done(&self) -> bool {
        self.open == 0 && self.has_all_begun()
    }
}
