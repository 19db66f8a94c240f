//! What it takes that the runs of a value have mean zero: parameters that are recentred ahead of time, and values that
//! are recentred where they are.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use lessen_graph::{Along, InputKind, NodeId, ValueId};

use super::facts::{Facts, Runs};

/// How the runs of a value get mean zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// They have it.
    Centred,
    /// The value is a state that is recentred before anything runs.
    Ahead,
    /// The inputs get it that the value is linear in.
    Through,
    /// The value is a product of runs `of` and of a state `by`: what `of` is linear in is multiplied by `by` and
    /// recentred ahead of time, and the node vanishes.
    Scaled { of: Runs, by: Runs },
    /// The mean is subtracted from the value.
    Explicit,
}

/// How the runs of a value get mean zero, and the values from which the mean is subtracted for it.
#[derive(Clone, Debug)]
pub(crate) struct Centring {
    pub how: How,
    pub explicit: Rc<BTreeSet<Runs>>,
}

/// The ways of all values of a graph; none where there is none.
pub(crate) struct Demands<'a> {
    ways: HashMap<Runs, Centring>,
    can_recentre: &'a dyn Fn(ValueId) -> bool,
    /// Whether a state may be multiplied ahead of time by another one.
    can_scale: bool,
}

impl Demands<'_> {
    pub fn of<'a>(facts: &Facts<'_>, can_recentre: &'a dyn Fn(ValueId) -> bool, can_scale: bool) -> Demands<'a> {
        let mut demands = Demands {
            ways: HashMap::new(),
            can_recentre,
            can_scale,
        };
        for (value, entry) in facts.graph.values.iter().enumerate() {
            if !entry.ty.dtype.is_float() {
                continue;
            }
            for axis in 0..entry.ty.rank().min(64) {
                let runs = Runs::of(ValueId(value as u32), axis);
                if let Some(way) = demands.decide(facts, runs) {
                    demands.ways.insert(runs, way);
                }
            }
        }
        demands
    }

    /// How a value gets runs of mean zero; none where it cannot.
    pub fn get(&self, runs: Runs) -> Option<&Centring> {
        self.ways.get(&runs)
    }

    fn decide(&self, facts: &Facts<'_>, runs: Runs) -> Option<Centring> {
        let free = |how| {
            let explicit = Rc::default();
            Some(Centring { how, explicit })
        };
        let along = facts.along(runs);
        if facts
            .graph
            .input(runs.value)
            .is_some_and(|input| input.kind == InputKind::State)
        {
            let can_change = facts.is_parameter[runs.value.index()] && facts.is_insensitive(runs);
            return can_change.then(|| free(How::Ahead)).flatten();
        }
        if *along == Along::Centred || facts.known[runs.value.index()] == Some(0.0) {
            return free(How::Centred);
        }
        if facts.is_insensitive(runs) {
            match along {
                Along::Linear(_) => {
                    let ways: Option<Vec<&Centring>> = facts.terms(runs).iter().map(|term| self.get(*term)).collect();
                    if let Some(ways) = ways {
                        return Some(Centring {
                            how: How::Through,
                            explicit: union(&ways),
                        });
                    }
                }
                Along::Product => {
                    if let Some((of, by)) = scaled(facts, runs).filter(|_| self.can_scale) {
                        return free(How::Scaled { of, by });
                    }
                }
                Along::Unknown | Along::Constant | Along::Centred => {}
            }
        }
        // What follows from parameters alone is large, and the same in every run.
        let is_possible = !facts.is_fixed[runs.value.index()] && (self.can_recentre)(runs.value);
        is_possible.then(|| Centring {
            how: How::Explicit,
            explicit: Rc::new(BTreeSet::from([runs])),
        })
    }
}

/// All values from which one of the ways subtracts a mean.
fn union(ways: &[&Centring]) -> Rc<BTreeSet<Runs>> {
    let mut sets = ways.iter().map(|way| &way.explicit).filter(|set| !set.is_empty());
    let Some(first) = sets.next() else {
        return Rc::default();
    };
    let mut all = first.clone();
    for set in sets.filter(|set| !Rc::ptr_eq(set, first)) {
        Rc::make_mut(&mut all).extend(set.iter().copied());
    }
    all
}

/// The factors of a product, one of which is a state with a number for each position, and the other scalable.
fn scaled(facts: &Facts<'_>, runs: Runs) -> Option<(Runs, Runs)> {
    let node = facts.graph.producer(runs.value)?;
    let [a, b] = facts.graph.nodes[node.index()].inputs[..] else {
        return None;
    };
    let extent = facts.graph.ty(runs.value).shape[runs.axis];
    [(a, b), (b, a)].into_iter().find_map(|(of, by)| {
        let of = Runs::of(of, runs.axis);
        let by = facts.state_of(Runs::of(by, runs.axis))?;
        let is_vector = facts.graph.ty(by.value).numel() == extent;
        (is_vector && facts.is_scalable(of)).then_some((of, by))
    })
}

/// A norm whose input would have mean zero after the conversion.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub node: NodeId,
    pub explicit: Rc<BTreeSet<Runs>>,
}

/// The norms that are worth converting: those for which fewer means are subtracted elsewhere than are spared.
pub(crate) fn worthwhile(candidates: &[Candidate]) -> BTreeSet<NodeId> {
    /// Norms whose means are spared for one that is subtracted by itself: that one reads and writes its value once
    /// more.
    const NORMS_FOR_ONE: usize = 2;
    let mut chosen: Vec<&Candidate> = candidates.iter().collect();
    loop {
        let mut needed: HashMap<Runs, usize> = HashMap::new();
        for candidate in &chosen {
            candidate
                .explicit
                .iter()
                .for_each(|runs| *needed.entry(*runs).or_default() += 1);
        }
        let pays = |candidate: &&Candidate| candidate.explicit.iter().all(|runs| needed[runs] > NORMS_FOR_ONE);
        let before = chosen.len();
        chosen.retain(pays);
        if chosen.len() == before {
            return chosen.iter().map(|candidate| candidate.node).collect();
        }
    }
}
