//! `memory.json`: memory of a run's training step over its plan steps, as planned before the first step.

use super::Folder;
use lessen_base::{Error, Result};
use lessen_compile::Plan;
use lessen_graph::Phase;
use lessen_train::StepPlans;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The name of the file.
pub const MEMORY: &str = "memory.json";

/// Values in the list of the largest.
const LARGEST: usize = 12;

/// The memory of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunMemory {
    /// The memory of each training phase; of a single one in a run without phases.
    #[serde(rename = "stages")]
    pub phases: Vec<PhaseMemory>,
}

/// The memory of the training step of a training phase, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseMemory {
    /// Its name; none in a run without phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// All that the plans of training take: states, constants, the largest arena.
    pub planned: usize,
    /// Parameters, sums of gradients and the optimizer's state.
    pub states: usize,
    /// Constants.
    pub constants: usize,
    /// The arena of the step.
    pub arena: usize,
    /// The operations of each step of the schedule.
    pub operations: Vec<String>,
    /// Where a stretch of the schedule begins, and the part of training that it belongs to.
    pub stretches: Vec<(usize, String)>,
    /// Bytes of the arena in each plan step.
    pub usage: Usage,
    /// The largest values of the arena.
    pub largest: Vec<LargeValue>,
}

/// Bytes of the arena in each plan step, by the parts of [`StepUsage`](lessen_compile::StepUsage).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Of inputs.
    pub inputs: Vec<usize>,
    /// Of values of forward.
    pub forward: Vec<usize>,
    /// Of values of backward.
    pub backward: Vec<usize>,
    /// Of values of the update.
    pub update: Vec<usize>,
    /// Of kernels while they run.
    pub scratch: Vec<usize>,
}

/// A value of the arena.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LargeValue {
    /// Its name.
    pub name: String,
    /// Its dtype and shape.
    #[serde(rename = "type")]
    pub ty: String,
    /// Its size.
    pub bytes: usize,
    /// The plan step from which on it is there.
    pub first_step: usize,
    /// The plan step after which it is not needed any more.
    pub last_step: usize,
}

impl RunMemory {
    /// Writes the file. Training phases that are over keep their memory in it.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn write(mut self, folder: &Folder) -> Result<()> {
        let before = RunMemory::read(folder.root()).unwrap_or_default().unwrap_or_default();
        let is_new = |old: &PhaseMemory| self.phases.iter().any(|phase| phase.phase == old.phase);
        let mut phases: Vec<PhaseMemory> = before.phases.into_iter().filter(|old| !is_new(old)).collect();
        phases.append(&mut self.phases);
        let text = serde_json::to_string(&RunMemory { phases });
        let text = text.map_err(|error| Error::internal(format!("{MEMORY} cannot be written ({error})")))?;
        folder.write(MEMORY, &format!("{text}\n"))
    }

    /// Reads the file of a run; none where there is no such file.
    ///
    /// # Errors
    /// A file that cannot be read or holds something else.
    pub fn read(root: &Path) -> Result<Option<RunMemory>> {
        let path = root.join(MEMORY);
        if !path.exists() {
            return Ok(None);
        }
        let unreadable = |reason: String| Error::user(format!("{} cannot be read ({reason})", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| unreadable(error.to_string()))?;
        let memory: RunMemory = serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        if memory.phases.iter().all(PhaseMemory::is_whole) {
            Ok(Some(memory))
        } else {
            Err(unreadable("its lists differ in length".to_string()))
        }
    }
}

impl PhaseMemory {
    /// The memory of the step that was planned for a training phase.
    pub fn of(phase: Option<&str>, plans: &StepPlans) -> PhaseMemory {
        let plan: &Plan = &plans.step;
        let mut memory = PhaseMemory {
            phase: phase.map(str::to_string),
            planned: plans.peak_bytes(),
            states: plans.state_bytes(),
            constants: plan.constant_bytes(),
            arena: plan.arena_bytes(),
            ..PhaseMemory::default()
        };
        for (number, step) in plan.usage().into_iter().enumerate() {
            let part = match step.phase {
                Phase::Forward => "forward",
                Phase::Backward => "backward",
                Phase::Update => "update",
            };
            if memory.stretches.last().is_none_or(|(_, last)| last != part) {
                memory.stretches.push((number, part.to_string()));
            }
            memory.operations.push(step.name);
            memory.usage.inputs.push(step.inputs);
            memory.usage.forward.push(step.forward);
            memory.usage.backward.push(step.backward);
            memory.usage.update.push(step.update);
            memory.usage.scratch.push(step.scratch);
        }
        let largest = plan.largest(LARGEST).into_iter().map(|value| LargeValue {
            name: value.name,
            ty: value.ty.to_string(),
            bytes: value.bytes,
            first_step: value.first_step,
            last_step: value.last_step,
        });
        memory.largest = largest.collect();
        memory
    }

    /// The parts of the usage with their names.
    pub fn parts(&self) -> [(&'static str, &[usize]); 5] {
        [
            ("inputs", &self.usage.inputs),
            ("forward values", &self.usage.forward),
            ("backward values", &self.usage.backward),
            ("update", &self.usage.update),
            ("kernels' scratch", &self.usage.scratch),
        ]
    }

    fn is_whole(&self) -> bool {
        let steps = self.operations.len();
        self.parts().iter().all(|(_, bytes)| bytes.len() == steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(phase: &str, planned: usize) -> PhaseMemory {
        PhaseMemory {
            phase: Some(phase.to_string()),
            planned,
            ..PhaseMemory::default()
        }
    }

    #[test]
    fn a_run_that_goes_on_keeps_what_is_known_of_phases_that_are_over() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, guard) = Folder::create(&dir.path().join("run")).unwrap();
        guard.keep();
        assert_eq!(RunMemory::read(folder.root()).unwrap(), None);
        for phases in [vec![phase("a", 1), phase("b", 2)], vec![phase("b", 3)]] {
            RunMemory { phases }.write(&folder).unwrap();
        }
        let found = RunMemory::read(folder.root()).unwrap().unwrap();
        assert_eq!(found.phases, [phase("a", 1), phase("b", 3)]);
    }

    #[test]
    fn lists_of_other_lengths_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut broken = phase("a", 1);
        broken.operations.push("add".to_string());
        let text = serde_json::to_string(&RunMemory { phases: vec![broken] }).unwrap();
        for (text, expected) in [(text.as_str(), "its lists differ in length"), ("{", "EOF")] {
            fs::write(dir.path().join(MEMORY), text).unwrap();
            let sentence = RunMemory::read(dir.path()).unwrap_err().to_string();
            assert!(
                sentence.contains("memory.json cannot be read") && sentence.contains(expected),
                "{sentence}"
            );
        }
    }
}
