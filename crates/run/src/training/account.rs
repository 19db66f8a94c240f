//! The account of a run's memory: what its process is going to have allocated at most, by parts, and what it comes to.

use lessen_base::allocated;
use lessen_train::memory::ResidentGrowth;
use lessen_train::{Peak, show_size};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;

/// By how many bytes the smallest budget of a run is larger than its plan, since a process that is started in another
/// folder or with other flags takes some KiB more or less, and what it is a multiple of.
const SLACK: usize = 128 << 10;
const ROUNDING: usize = 16 << 10;

/// The most bytes that a process allocates for a run, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The process before it reads anything.
    pub process: usize,
    /// Data, tokenizer and threads; none where the recipe names no data.
    pub data: Option<usize>,
    /// The workspace of matrix products.
    pub workspace: usize,
    /// Parameters, the optimizer's state and sums of gradients.
    pub states: usize,
    /// Constants of the plans.
    pub constants: usize,
    /// What steps and evaluations compute in.
    pub arena: usize,
    /// Compiled steps and evaluations of all layouts of batches.
    pub programs: usize,
    /// Batches that are made ahead.
    pub batches: usize,
    /// What compiling, evaluating and saving take for a moment.
    pub transient: usize,
}

impl Parts {
    /// All bytes.
    pub(crate) fn total(&self) -> usize {
        self.plans() + self.beyond()
    }

    /// What the plans say: states, constants and arena.
    pub(crate) fn plans(&self) -> usize {
        self.states + self.constants + self.arena
    }

    /// What the process takes beyond the plans.
    pub(crate) fn beyond(&self) -> usize {
        let lasting = self.process + self.data.unwrap_or(0) + self.workspace + self.programs;
        lasting + self.batches + self.transient
    }

    /// The smallest budget that these parts get along with.
    pub(crate) fn smallest_budget(&self) -> usize {
        (self.total() + SLACK).next_multiple_of(ROUNDING)
    }

    /// All parts with their names.
    pub(crate) fn named(&self) -> [(&'static str, Option<usize>); 9] {
        [
            ("process", Some(self.process)),
            ("data", self.data),
            ("workspace", Some(self.workspace)),
            ("states", Some(self.states)),
            ("constants", Some(self.constants)),
            ("arena", Some(self.arena)),
            ("programs", Some(self.programs)),
            ("batches", Some(self.batches)),
            ("transient", Some(self.transient)),
        ]
    }

    /// The parts as one JSON object.
    pub(crate) fn to_json(self) -> Value {
        let all = self.named().map(|(name, bytes)| (name.to_string(), json!(bytes)));
        Value::Object(Map::from_iter(all))
    }

    /// The parts in words, the largest first: `states 1.1 GiB, arena 300 MiB`. Parts below a hundredth are left out.
    pub(crate) fn show(&self) -> String {
        let mut parts: Vec<(usize, &str)> = self.named().map(|(name, bytes)| (bytes.unwrap_or(0), name)).to_vec();
        parts.retain(|(bytes, _)| bytes * 100 >= self.total());
        parts.sort_by_key(|(bytes, _)| Reverse(*bytes));
        let shown = parts
            .into_iter()
            .map(|(bytes, name)| format!("{name} {}", show_size(bytes)));
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// The memory of a process that works on a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    /// Bytes that were allocated at the start of the run; none where nobody counts.
    start: Option<usize>,
    /// What is planned, once it is.
    pub parts: Parts,
    /// The most that the plans of a stage say.
    pub plans: usize,
    resident: Option<ResidentGrowth>,
}

impl Account {
    /// Begins to watch, at the start of a run.
    pub(crate) fn watch() -> Account {
        allocated::reset_peak();
        Account {
            start: allocated::current(),
            parts: Parts::default(),
            plans: 0,
            resident: ResidentGrowth::watch(),
        }
    }

    /// Bytes that were allocated at the start of the run; none where nobody counts.
    pub(crate) fn start(&self) -> Option<usize> {
        self.start
    }

    /// Adds the parts of a stage: those of the one that takes most count.
    pub(crate) fn add(&mut self, stage: Parts) {
        self.plans = self.plans.max(stage.plans());
        if stage.total() > self.parts.total() {
            self.parts = stage;
        }
    }

    /// What a run has come to, whose trainer says this of states, constants and arena. Where nobody counts allocations,
    /// that is all that is known.
    pub(super) fn peak(&self, trainer: Peak) -> Peak {
        Peak {
            planned: self.parts.total().max(trainer.planned),
            measured: allocated::peak().unwrap_or(trainer.measured),
        }
    }

    /// The most that the process has grown by in resident memory.
    pub(super) fn resident(&self) -> Option<usize> {
        self.resident.and_then(|resident| resident.peak())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_sum_up_and_are_shown_by_size() {
        let parts = Parts {
            process: 1 << 20,
            states: 64 << 20,
            arena: 30 << 20,
            batches: 1000,
            ..Parts::default()
        };
        assert_eq!(parts.total(), (95 << 20) + 1000);
        let named: usize = parts.named().into_iter().filter_map(|(_, bytes)| bytes).sum();
        assert_eq!(named, parts.total());
        assert_eq!(parts.show(), "states 64.0 MiB, arena 30.0 MiB, process 1.0 MiB");
        assert_eq!(parts.to_json()["data"], Value::Null);
        assert_eq!(parts.smallest_budget(), (95 << 20) + (144 << 10));
    }
}
