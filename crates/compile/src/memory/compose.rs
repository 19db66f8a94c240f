//! Composition: a way for each block, for the least time within a number of bytes, by dynamic programming over the
//! blocks in the order of the forward phase.
//!
//! A state between two blocks is *closed*: the bytes that all blocks before it keep, and their time. Inside a segment
//! it is *open*: of the segment's values only the first is kept. When backward reaches the segment, the values between
//! its blocks are computed once more, with what its blocks keep from then on; these bytes come on top while the
//! segment's own gradients are computed, and are not there while those of later blocks are.
//!
//! A closed state may *promise* that the next block inverts a value that leads into both: then it is not kept.
//!
//! Of states that are no better in any figure than another one only that one goes on, and none from which a bound of
//! the seconds of later blocks shows that it takes longer than a choice that is known. So the choice is exact for the
//! figures of the samples, unless there are more than [`MOST`] states between two blocks, of which those with the least
//! bounds go on.

use std::collections::BTreeMap;

use super::relaxation::Relaxation;
use super::ways::{Way, Ways};
use crate::passes::Form;

/// The states between two blocks, of each kind, of which none is left out.
const MOST: usize = 512;

/// The same for the first search, which only has to find a good choice.
const FEW: usize = 16;

/// What the composition must know of a block.
pub(super) struct Block<'a> {
    /// Its ways.
    pub ways: &'a Ways,
    /// Its ways where the value that it is the last one to read follows from what it passes on.
    pub inverted: Option<&'a Ways>,
    /// Bytes of the values that lead into it, and into no block before it.
    pub entry: usize,
    /// The same where they are kept in each form.
    pub rounded_entry: [usize; Form::ALL.len()],
    /// Of these the bytes of the value that the next block inverts, if it can.
    pub inverted_next: usize,
    /// Bytes of gradients of later blocks that wait for their update.
    pub waiting: usize,
}

impl Block<'_> {
    /// The most bytes at once up to this block in a way, behind a state.
    fn peak(&self, way: &Way, before: &State) -> usize {
        let others = before.outer + before.inner;
        let most = way.forward.max(way.backward + self.waiting);
        before.peak.max(others + most)
    }
}

/// How a block's values are had in backward.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    /// The candidates that backward recomputes in the block's own stage or, where `lasting`, for the segment.
    pub recomputed: Vec<usize>,
    /// Whether the value that leads into the block is not kept: it lies within a segment.
    pub is_inner: bool,
    /// Whether what is not recomputed in the block's stage is computed once more with the values between the segment's
    /// blocks, and then kept. Within a segment nothing else is kept.
    pub in_segment: bool,
    /// Whether the value that the block is the last one to read is not kept, but follows from what it passes on.
    pub is_inverted: bool,
    /// The form in which that is kept which is kept, with the values that lead into the block first, if not as it is.
    pub form: Option<Form>,
    /// Whether the block's backward part runs slice by slice of the rows.
    pub is_sliced: bool,
}

/// A choice for all blocks.
#[derive(Clone, Debug)]
pub(super) struct Composed {
    pub choices: Vec<Choice>,
    /// Seconds of all blocks.
    pub seconds: f64,
    /// The most bytes at once.
    pub peak: usize,
}

#[derive(Clone, Copy)]
struct State {
    /// Bytes that closed blocks keep, with the value that leads into an open segment.
    outer: usize,
    /// Bytes that an open segment keeps; 0 for a closed state.
    inner: usize,
    peak: usize,
    seconds: f64,
    /// Whether a segment is open.
    is_open: bool,
    /// No choice that goes on from here takes less seconds.
    least: f64,
    /// The position of its last step.
    step: usize,
}

/// How a state came from another one.
#[derive(Clone, Copy)]
struct Step {
    before: usize,
    way: Option<usize>,
    is_inner: bool,
    in_segment: bool,
    is_inverted: bool,
}

/// The states between two blocks, by kind.
#[derive(Default)]
struct States {
    closed: Vec<State>,
    /// Closed ones that promise to invert.
    promised: Vec<State>,
    open: Vec<State>,
}

const NO_STEP: usize = usize::MAX;

/// Which states go on of too many.
#[derive(Clone, Copy, PartialEq)]
enum Thinning {
    /// Those with the least bounds: a few of them lead to a good choice, where there is room.
    ByBound,
    /// One of those of about the same bytes.
    ByBytes,
}

struct Search<'a> {
    blocks: &'a [Block<'a>],
    limit: usize,
    segments: bool,
    steps: Vec<Step>,
    relaxation: Relaxation,
    /// Seconds that a choice is known to take.
    bound: f64,
    thinning: Thinning,
    /// The states between two blocks, of each kind, of which none is left out.
    most: usize,
}

/// The fastest choice that takes no more than `limit` bytes; none where there is none. Without `segments` each block is
/// by itself.
pub(super) fn compose(blocks: &[Block<'_>], limit: usize, segments: bool) -> Option<Composed> {
    let mut search = Search::new(blocks, limit, segments, f64::INFINITY);
    let good = search.few();
    search.bound = good.map_or(f64::INFINITY, |state| state.seconds);
    let best = match (good, search.all()) {
        (Some(good), Some(best)) if best.seconds < good.seconds => Some(best),
        (good, best) => good.or(best),
    };
    best.map(|state| search.composed(state))
}

/// Whether there is a choice of no more than `limit` bytes that takes no more than so many seconds.
pub(super) fn is_composed(blocks: &[Block<'_>], limit: usize, segments: bool, seconds: f64) -> bool {
    let mut search = Search::new(blocks, limit, segments, seconds);
    search.few().or_else(|| search.all()).is_some()
}

impl<'a> Search<'a> {
    fn new(blocks: &'a [Block<'a>], limit: usize, segments: bool, bound: f64) -> Search<'a> {
        Search {
            blocks,
            limit,
            segments,
            steps: Vec::new(),
            relaxation: Relaxation::of(blocks, limit, segments),
            bound,
            thinning: Thinning::ByBound,
            most: FEW,
        }
    }

    /// A good choice.
    fn few(&mut self) -> Option<State> {
        (self.thinning, self.most) = (Thinning::ByBound, FEW);
        self.run()
    }

    /// The best choice.
    fn all(&mut self) -> Option<State> {
        (self.thinning, self.most) = (Thinning::ByBytes, MOST);
        self.run()
    }

    fn run(&mut self) -> Option<State> {
        let start = State {
            outer: 0,
            inner: 0,
            peak: 0,
            seconds: 0.0,
            is_open: false,
            least: 0.0,
            step: NO_STEP,
        };
        let mut states = States {
            closed: vec![start],
            ..States::default()
        };
        for at in 0..self.blocks.len() {
            let mut next = States::default();
            for state in &states.closed {
                self.keep(at, state, false, &mut next);
                if self.segments && at + 1 < self.blocks.len() {
                    self.within(at, state, false, &mut next.open);
                }
            }
            for state in &states.promised {
                self.keep(at, state, true, &mut next);
            }
            for state in &states.open {
                self.within(at, state, true, &mut next.open);
                self.end(at, state, &mut next.closed);
            }
            states = States {
                closed: self.thinned(next.closed),
                promised: self.thinned(next.promised),
                open: self.thinned(next.open),
            };
        }
        let closed = states.closed.into_iter();
        closed.min_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    /// Goes on behind a block by a step, if that stays within the limit and may lead to a faster choice.
    fn push(&mut self, at: usize, to: &mut Vec<State>, state: State, step: Step) {
        if state.peak > self.limit {
            return;
        }
        let least = state.seconds + self.relaxation.least(at + 1, state.outer, state.is_open);
        if least < self.bound * (1.0 + 1e-12) {
            self.steps.push(step);
            let step = self.steps.len() - 1;
            to.push(State { least, step, ..state });
        }
    }

    /// The block by itself, in each way; inverted where that was promised.
    fn keep(&mut self, at: usize, state: &State, is_inverted: bool, next: &mut States) {
        let block = &self.blocks[at];
        let ways = block.inverted.filter(|_| is_inverted).unwrap_or(block.ways);
        for (i, way) in ways.best.iter().enumerate() {
            // What is inverted follows from exact values.
            if way.form.is_some() && (is_inverted || block.inverted_next > 0) {
                continue;
            }
            let entry = way.form.map_or(block.entry, |form| block.rounded_entry[form as usize]);
            let closed = State {
                outer: state.outer + entry + way.kept,
                peak: block.peak(way, state),
                seconds: state.seconds + way.seconds,
                ..*state
            };
            let step = Step {
                before: state.step,
                way: Some(i),
                is_inner: false,
                in_segment: false,
                is_inverted,
            };
            self.push(at, &mut next.closed, closed, step);
            if block.inverted_next > 0 {
                let outer = closed.outer - block.inverted_next;
                self.push(at, &mut next.promised, State { outer, ..closed }, step);
            }
        }
    }

    /// A block of a segment that is not its last: computed once more for the next block's sake, with what it keeps from
    /// then on. The value that leads into an inner block is kept by the segment, that into the first one by the state.
    fn within(&mut self, at: usize, state: &State, is_inner: bool, to: &mut Vec<State>) {
        let block = &self.blocks[at];
        let (outer, inner) = if is_inner { (0, block.entry) } else { (block.entry, 0) };
        let ways = block.ways.best.iter().enumerate().filter(|(_, way)| way.form.is_none());
        let ways = ways.map(|(i, way)| (Some(i), way));
        for (number, way) in ways.chain([(None, &block.ways.smallest)]) {
            let kept = if number.is_some() { way.kept } else { 0 };
            // While backward computes the block once more, a gradient of about its entry's size is there.
            let again = state.outer + state.inner + way.forward + block.waiting + block.entry;
            let next = State {
                outer: state.outer + outer,
                inner: state.inner + inner + kept,
                peak: block.peak(way, state).max(again),
                seconds: state.seconds + way.seconds + block.ways.forward_seconds,
                is_open: true,
                ..*state
            };
            let step = Step {
                before: state.step,
                way: number,
                is_inner,
                in_segment: number.is_some(),
                is_inverted: false,
            };
            self.push(at, to, next, step);
        }
    }

    /// The last block of a segment.
    fn end(&mut self, at: usize, state: &State, to: &mut Vec<State>) {
        let block = &self.blocks[at];
        let way = &block.ways.smallest;
        let next = State {
            inner: 0,
            peak: block.peak(way, state),
            seconds: state.seconds + way.seconds,
            is_open: false,
            ..*state
        };
        let step = Step {
            before: state.step,
            way: None,
            is_inner: true,
            in_segment: false,
            is_inverted: false,
        };
        self.push(at, to, next, step);
    }

    /// The states that may lead to the best choice behind a block, the fastest first: no others are better in all
    /// figures, and if there are too many, those with the least bounds.
    fn thinned(&self, mut states: Vec<State>) -> Vec<State> {
        states.sort_by(|a, b| {
            let bytes = (a.outer, a.inner).cmp(&(b.outer, b.inner));
            a.seconds.total_cmp(&b.seconds).then(bytes)
        });
        if states.len() <= self.most {
            return without_worse(states, 1);
        }
        match self.thinning {
            Thinning::ByBytes => without_worse(states, self.limit / self.most + 1),
            Thinning::ByBound => {
                let mut states = without_worse(states, 1);
                states.sort_by(|a, b| a.least.total_cmp(&b.least));
                states.truncate(self.most);
                states
            }
        }
    }

    fn composed(&self, state: State) -> Composed {
        let mut choices = Vec::new();
        let mut at = state.step;
        while at != NO_STEP {
            let step = self.steps[at];
            let block = &self.blocks[self.blocks.len() - 1 - choices.len()];
            let ways = block.inverted.filter(|_| step.is_inverted).unwrap_or(block.ways);
            let way: &Way = step.way.map_or(&ways.smallest, |i| &ways.best[i]);
            choices.push(Choice {
                recomputed: way.recomputed.clone(),
                is_inner: step.is_inner,
                in_segment: step.in_segment,
                is_inverted: step.is_inverted,
                form: way.form,
                is_sliced: way.is_sliced,
            });
            at = step.before;
        }
        choices.reverse();
        Composed {
            choices,
            seconds: state.seconds,
            peak: state.peak,
        }
    }
}

/// The states, the fastest first, without those than which another one is no slower and keeps as few bytes, in units of
/// a grain.
fn without_worse(mut states: Vec<State>, grain: usize) -> Vec<State> {
    // Of the states so far, by their outer bytes, the least inner bytes with as few outer ones.
    let mut least: BTreeMap<usize, usize> = BTreeMap::new();
    states.retain(|state| {
        let (outer, inner) = (state.outer / grain, state.inner / grain);
        let as_few = least.range(..=outer).next_back();
        if as_few.is_some_and(|(_, &least)| least <= inner) {
            return false;
        }
        let worse = least.range(outer..).take_while(|(_, least)| **least >= inner);
        let worse: Vec<usize> = worse.map(|(&outer, _)| outer).collect();
        for outer in worse {
            least.remove(&outer);
        }
        least.insert(outer, inner);
        true
    });
    states
}
