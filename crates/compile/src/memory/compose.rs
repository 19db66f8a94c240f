//! Composition: chooses a way for each block, for the least time within a number of bytes, by dynamic programming over
//! the blocks in forward order.
//!
//! A state between two blocks records the bytes that the blocks before it keep, and their time. It is *closed* between
//! segments and *open* inside one. Inside a segment only the first entry is kept. When backward reaches the segment, it
//! computes the other entries once more, together with the values that the segment's blocks keep from then on. The
//! bytes of these entries and values count while the segment's own gradients are computed, and not while the gradients
//! of later blocks are computed.
//!
//! A closed state may *promise* that the next block inverts a value that both blocks read: then the value is not kept.
//!
//! A state is dropped where another one is at least as good in every figure, and where a lower bound on the time of
//! later blocks shows that it ends slower than a choice already known. So the choice is optimal for the figures of the
//! samples, unless there are more than [`MOST_STATES`] states between two blocks; then states with nearly the same
//! bytes are merged.

use std::collections::BTreeMap;

use super::block::Block;
use super::relaxation::Relaxation;
use super::ways::Way;
use crate::passes::StorageFormat;

/// Limit of search states between two blocks, for each list of closed, promised and open states; below it only worse
/// states are dropped.
const MOST_STATES: usize = 512;

/// Limit of search states, as [`MOST_STATES`], for the first search, which only has to find a good choice.
const FEW_STATES: usize = 16;

/// The choice for one block.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    /// Positions of the candidates that the block's own stage recomputes.
    pub recomputed: Vec<usize>,
    /// Whether the block's entries are not kept, because it is in a segment and not its first block.
    pub is_inner: bool,
    /// Whether candidates that the stage does not recompute are computed once for the whole segment, together with the
    /// segment's entries, and kept from then on.
    pub in_segment: bool,
    /// Whether the block's entry is inverted from its output.
    pub is_inverted: bool,
    /// Storage format of kept values and of new entry values; none means exact.
    pub format: Option<StorageFormat>,
    /// Whether the stage runs in slices.
    pub is_sliced: bool,
}

/// The choices for all blocks.
#[derive(Clone, Debug)]
pub(super) struct Composed {
    pub choices: Vec<Choice>,
    /// Seconds of all blocks.
    pub seconds: f64,
    /// Peak bytes.
    pub peak: usize,
}

#[derive(Clone, Copy)]
struct State {
    /// Bytes kept by the blocks outside an open segment, and by the segment's first entry.
    outer: usize,
    /// Bytes that an open segment keeps while its gradients are computed; 0 in a closed state.
    inner: usize,
    peak: usize,
    seconds: f64,
    /// Whether the state is inside a segment.
    is_open: bool,
    /// Lower bound on the seconds of all choices that continue this state.
    least: f64,
    /// The position of the transition that led to the state.
    step: usize,
}

impl State {
    /// Peak bytes of all blocks up to `block`, if its way `way` follows the state.
    fn peak_with(&self, block: &Block<'_>, way: &Way) -> usize {
        let others = self.outer + self.inner;
        let most = way.forward.max(way.backward + block.waiting);
        self.peak.max(others + most)
    }
}

/// The transition from one state to the next: what was chosen for the block between them.
#[derive(Clone, Copy)]
struct Transition {
    before: usize,
    way: Option<usize>,
    is_inner: bool,
    in_segment: bool,
    is_inverted: bool,
}

/// The states between two blocks.
#[derive(Default)]
struct States {
    closed: Vec<State>,
    /// Closed states that promise that the next block inverts an entry.
    promised: Vec<State>,
    open: Vec<State>,
}

const NO_STEP: usize = usize::MAX;

/// Rule for the states that go on where there are too many.
#[derive(Clone, Copy, PartialEq)]
enum Thinning {
    /// The states with the lowest bounds. A few of them lead to a good choice where there is room.
    ByBound,
    /// One state of each group with about the same bytes.
    ByBytes,
}

struct Composer<'a> {
    blocks: &'a [Block<'a>],
    limit: usize,
    segments: bool,
    steps: Vec<Transition>,
    relaxation: Relaxation,
    /// Seconds of a choice that is known: slower states are dropped.
    bound: f64,
    thinning: Thinning,
    /// Limit of the states of each list that go on to the next block.
    most: usize,
}

/// The fastest choice that takes no more than `limit` bytes; none where there is none. Without `segments` each block
/// stands alone.
pub(super) fn compose(blocks: &[Block<'_>], limit: usize, segments: bool) -> Option<Composed> {
    let mut composer = Composer::new(blocks, limit, segments, f64::INFINITY);
    let good = composer.good();
    composer.bound = good.map_or(f64::INFINITY, |state| state.seconds);
    let best = match (good, composer.best()) {
        (Some(good), Some(best)) if best.seconds < good.seconds => Some(best),
        (good, best) => good.or(best),
    };
    best.map(|state| composer.composed(state))
}

/// Whether a choice of at most `limit` bytes takes at most `seconds` seconds.
pub(super) fn is_composed(blocks: &[Block<'_>], limit: usize, segments: bool, seconds: f64) -> bool {
    let mut composer = Composer::new(blocks, limit, segments, seconds);
    composer.good().or_else(|| composer.best()).is_some()
}

impl<'a> Composer<'a> {
    fn new(blocks: &'a [Block<'a>], limit: usize, segments: bool, bound: f64) -> Composer<'a> {
        Composer {
            blocks,
            limit,
            segments,
            steps: Vec::new(),
            relaxation: Relaxation::of(blocks, limit, segments),
            bound,
            thinning: Thinning::ByBound,
            most: FEW_STATES,
        }
    }

    /// Finds a good choice.
    fn good(&mut self) -> Option<State> {
        (self.thinning, self.most) = (Thinning::ByBound, FEW_STATES);
        self.run()
    }

    /// Finds the best choice.
    fn best(&mut self) -> Option<State> {
        (self.thinning, self.most) = (Thinning::ByBytes, MOST_STATES);
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
                self.alone(at, state, false, &mut next);
                if self.segments && at + 1 < self.blocks.len() {
                    self.segment_block(at, state, false, &mut next.open);
                }
            }
            for state in &states.promised {
                self.alone(at, state, true, &mut next);
            }
            for state in &states.open {
                self.segment_block(at, state, true, &mut next.open);
                self.segment_end(at, state, &mut next.closed);
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

    /// Adds the state after a block, if it stays within the limit and may lead to a faster choice.
    fn push(&mut self, at: usize, to: &mut Vec<State>, state: State, step: Transition) {
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

    /// Continues a closed state with the block outside segments, in each way; inverted where that was promised.
    fn alone(&mut self, at: usize, state: &State, is_inverted: bool, next: &mut States) {
        let block = &self.blocks[at];
        let ways = block.inverted.filter(|_| is_inverted).unwrap_or(block.ways);
        for (i, way) in ways.best.iter().enumerate() {
            // Inversion needs exact values.
            if way.format.is_some() && (is_inverted || block.inverted_next > 0) {
                continue;
            }
            let entry = way
                .format
                .map_or(block.entry, |format| block.rounded_entry[format as usize]);
            let closed = State {
                outer: state.outer + entry + way.kept,
                peak: state.peak_with(block, way),
                seconds: state.seconds + way.seconds,
                ..*state
            };
            let step = Transition {
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

    /// Continues a state with a block of a segment that is not its last. Backward computes the block once more for the
    /// next block's entries, with the values that it keeps from then on. The entry of the segment's first block counts
    /// as kept outside, the others as kept by the segment.
    fn segment_block(&mut self, at: usize, state: &State, is_inner: bool, to: &mut Vec<State>) {
        let block = &self.blocks[at];
        let (outer, inner) = if is_inner { (0, block.entry) } else { (block.entry, 0) };
        let ways = block
            .ways
            .best
            .iter()
            .enumerate()
            .filter(|(_, way)| way.format.is_none());
        let ways = ways.map(|(i, way)| (Some(i), way));
        for (number, way) in ways.chain([(None, &block.ways.smallest)]) {
            let kept = if number.is_some() { way.kept } else { 0 };
            // While backward computes the block once more, a gradient about as large as the block's entry is alive.
            let again = state.outer + state.inner + way.forward + block.waiting + block.entry;
            let next = State {
                outer: state.outer + outer,
                inner: state.inner + inner + kept,
                peak: state.peak_with(block, way).max(again),
                seconds: state.seconds + way.seconds + block.ways.forward_seconds,
                is_open: true,
                ..*state
            };
            let step = Transition {
                before: state.step,
                way: number,
                is_inner,
                in_segment: number.is_some(),
                is_inverted: false,
            };
            self.push(at, to, next, step);
        }
    }

    /// Continues an open state with the last block of its segment.
    fn segment_end(&mut self, at: usize, state: &State, to: &mut Vec<State>) {
        let block = &self.blocks[at];
        let way = &block.ways.smallest;
        let next = State {
            inner: 0,
            peak: state.peak_with(block, way),
            seconds: state.seconds + way.seconds,
            is_open: false,
            ..*state
        };
        let step = Transition {
            before: state.step,
            way: None,
            is_inner: true,
            in_segment: false,
            is_inverted: false,
        };
        self.push(at, to, next, step);
    }

    /// The states that go on after a block: states that are not worse in all figures than another state, fastest first.
    /// If there are more than `most` states, only a part of them goes on, as `thinning` says.
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
                format: way.format,
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

/// Drops each state that is slower than another one which keeps as few bytes. Bytes are compared in units of `grain`.
fn without_worse(mut states: Vec<State>, grain: usize) -> Vec<State> {
    // For each number of outer bytes: the least inner bytes of the states so far that have at most this number of outer
    // bytes.
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
