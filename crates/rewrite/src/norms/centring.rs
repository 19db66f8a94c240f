//! How lines get mean zero: parameters are recentred ahead of time, and values are recentred where they are computed.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use lessen_graph::{Along, InputKind, NodeId, ValueId};

use super::facts::{Facts, Lines};

/// How the lines of a value get mean zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// They have mean zero.
    Centred,
    /// The value is a state that is recentred ahead of time.
    AheadOfTime,
    /// The inputs that the value is linear in get mean zero.
    ThroughInputs,
    /// The value is a product of lines `of` and a state `by`: the states that `of` is linear in are multiplied by `by`
    /// and recentred ahead of time, and the node vanishes.
    Scaled { of: Lines, by: Lines },
    /// The mean is subtracted from the value.
    Subtracted,
}

/// How the lines of a value get mean zero, and all values whose mean is subtracted for it.
#[derive(Clone, Debug)]
pub(crate) struct Centring {
    pub method: Method,
    pub subtracted: Rc<BTreeSet<Lines>>,
}

/// For each value of a graph how its lines get mean zero; none where they cannot.
pub(crate) struct Centrings<'a> {
    ways: HashMap<Lines, Centring>,
    can_recentre: &'a dyn Fn(ValueId) -> bool,
    /// Whether a state may be multiplied ahead of time by another one.
    can_scale: bool,
}

impl Centrings<'_> {
    pub fn of<'a>(facts: &Facts<'_>, can_recentre: &'a dyn Fn(ValueId) -> bool, can_scale: bool) -> Centrings<'a> {
        let mut centrings = Centrings {
            ways: HashMap::new(),
            can_recentre,
            can_scale,
        };
        for (value, entry) in facts.graph.values.iter().enumerate() {
            if !entry.ty.dtype.is_float() {
                continue;
            }
            for axis in 0..entry.ty.rank().min(64) {
                let lines = Lines::of(ValueId(value as u32), axis);
                if let Some(way) = centrings.decide(facts, lines) {
                    centrings.ways.insert(lines, way);
                }
            }
        }
        centrings
    }

    /// How lines get mean zero; none where they cannot.
    pub fn get(&self, lines: Lines) -> Option<&Centring> {
        self.ways.get(&lines)
    }

    fn decide(&self, facts: &Facts<'_>, lines: Lines) -> Option<Centring> {
        let free = |method| {
            let subtracted = Rc::default();
            Some(Centring { method, subtracted })
        };
        let along = facts.along(lines);
        if facts
            .graph
            .input(lines.value)
            .is_some_and(|input| input.kind == InputKind::State)
        {
            let can_change = facts.is_parameter[lines.value.index()] && facts.is_insensitive(lines);
            return can_change.then(|| free(Method::AheadOfTime)).flatten();
        }
        if *along == Along::Centred || facts.known[lines.value.index()] == Some(0.0) {
            return free(Method::Centred);
        }
        if facts.is_insensitive(lines) {
            match along {
                Along::Linear(_) => {
                    let ways: Option<Vec<&Centring>> = facts.terms(lines).iter().map(|term| self.get(*term)).collect();
                    if let Some(ways) = ways {
                        return Some(Centring {
                            method: Method::ThroughInputs,
                            subtracted: union(&ways),
                        });
                    }
                }
                Along::Product => {
                    if let Some((of, by)) = scaled(facts, lines).filter(|_| self.can_scale) {
                        return free(Method::Scaled { of, by });
                    }
                }
                Along::Unknown | Along::Constant | Along::Centred => {}
            }
        }
        // A value that depends on parameters alone is large, and the same in every run.
        let is_possible = !facts.is_fixed[lines.value.index()] && (self.can_recentre)(lines.value);
        is_possible.then(|| Centring {
            method: Method::Subtracted,
            subtracted: Rc::new(BTreeSet::from([lines])),
        })
    }
}

/// All lines whose mean is subtracted in any of the ways `ways`.
fn union(ways: &[&Centring]) -> Rc<BTreeSet<Lines>> {
    let mut sets = ways.iter().map(|way| &way.subtracted).filter(|set| !set.is_empty());
    let Some(first) = sets.next() else {
        return Rc::default();
    };
    let mut all = first.clone();
    for set in sets.filter(|set| !Rc::ptr_eq(set, first)) {
        Rc::make_mut(&mut all).extend(set.iter().copied());
    }
    all
}

/// The factors of a product, if one is a state with a number for each position and the other is scalable.
fn scaled(facts: &Facts<'_>, lines: Lines) -> Option<(Lines, Lines)> {
    let node = facts.graph.producer(lines.value)?;
    let [a, b] = facts.graph.nodes[node.index()].inputs[..] else {
        return None;
    };
    let extent = facts.graph.ty(lines.value).shape[lines.axis];
    [(a, b), (b, a)].into_iter().find_map(|(of, by)| {
        let of = Lines::of(of, lines.axis);
        let by = facts.state_of(Lines::of(by, lines.axis))?;
        let is_vector = facts.graph.ty(by.value).numel() == extent;
        (is_vector && facts.is_scalable(of)).then_some((of, by))
    })
}

/// A norm whose input can have mean zero.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub node: NodeId,
    pub subtracted: Rc<BTreeSet<Lines>>,
}

/// The norms that are worth converting: norms whose conversion saves more means than are subtracted elsewhere for it.
pub(crate) fn worthwhile(candidates: &[Candidate]) -> BTreeSet<NodeId> {
    /// Number of norms whose conversion saves as much as subtracting one mean by itself costs, which reads and writes
    /// its value once more.
    const NORMS_FOR_ONE: usize = 2;
    let mut chosen: Vec<&Candidate> = candidates.iter().collect();
    loop {
        let mut needed: HashMap<Lines, usize> = HashMap::new();
        for candidate in &chosen {
            candidate
                .subtracted
                .iter()
                .for_each(|lines| *needed.entry(*lines).or_default() += 1);
        }
        let pays = |candidate: &&Candidate| candidate.subtracted.iter().all(|lines| needed[lines] > NORMS_FOR_ONE);
        let before = chosen.len();
        chosen.retain(pays);
        if chosen.len() == before {
            return chosen.iter().map(|candidate| candidate.node).collect();
        }
    }
}
