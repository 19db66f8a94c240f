//! Times of operations on this machine: measured one by one, remembered by operation and shape, told to the planner.

mod machine;
mod measuring;
mod memory;
mod sample;

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lessen_base::Result;
use lessen_base::load::ProcessorTime;
use lessen_compile::{Measured, Operands, Operation};
use lessen_device::{MeasuredTimes, Measuring};
use lessen_graph::Op;

use self::sample::Class;
use crate::device::Device;

/// The time within which measurements may begin.
const MOST_TIME: Duration = Duration::from_secs(4);

/// Times are stale where an operation takes less than this part of its time.
const STALE: f64 = 0.8;

/// Seconds of an operation that is long enough to tell.
const TELLING: f64 = 1e-3;

/// Processors by which the threads that are measured and other processes may exceed those of the machine.
const BESIDE: f64 = 0.25;

/// The file of times with `threads` threads.
fn file(folder: &Path, threads: usize) -> PathBuf {
    folder.join(format!("kernels-{threads}.json"))
}

/// The times of operations on this machine.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// Times by [`Class::name`], as they are kept for the next process.
    pub(crate) known: MeasuredTimes,
    /// Whether some of them were measured while other processes kept the machine busy; none are kept then.
    are_disturbed: bool,
    /// Answers to the questions of the planner, by a hash of operation and types.
    asked: Mutex<HashMap<u64, Option<Measured>>>,
}

impl Times {
    /// The time of an operation, if it was measured.
    pub(crate) fn of(&self, op: &dyn Op, operands: &Operands<'_>) -> Option<Measured> {
        let mut hasher = DefaultHasher::new();
        (op.name(), op.fingerprint(), operands.inputs, operands.outputs).hash(&mut hasher);
        operands
            .layouts
            .iter()
            .for_each(|layout| layout.strides.hash(&mut hasher));
        let key = hasher.finish();
        let asked = || self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = asked().get(&key) {
            return *known;
        }
        let class = Class::of(op, operands.inputs, operands.outputs);
        let time = self.known.operations.get(&class.name(op, operands));
        let measured = time.map(|time| class.measured(time));
        asked().insert(key, measured);
        measured
    }

    /// The times that a folder has of this program, this machine and `threads` threads.
    pub(crate) fn in_folder(folder: Option<&Path>, threads: usize) -> Times {
        let file = folder.map(|folder| file(folder, threads));
        let read = file.and_then(|file| MeasuredTimes::read(&file, &machine::key(threads)));
        Times {
            known: read.unwrap_or_default(),
            ..Times::default()
        }
    }

    /// Measures the operations whose times are not known, in their order, within `memory` bytes, and keeps all known
    /// times in the folder, unless `processor_time` says that other processes disturbed the measurement.
    pub(crate) fn measure(
        &mut self,
        device: &mut Device,
        operations: &[Operation],
        memory: usize,
        (folder, processor_time): (Option<&Path>, fn() -> Option<ProcessorTime>),
    ) -> Result<Measuring> {
        let (start, before) = (Instant::now(), processor_time());
        let mut measuring = Measuring::default();
        if self.are_stale(device, operations, memory)? {
            *self = Times::default();
            if let Some(folder) = folder {
                // A file that stays is read again, and found to be stale again.
                let _ = fs::remove_file(file(folder, device.threads()));
            }
        }
        let memory_bytes = memory::bytes(memory);
        let rates = match self.known.memory {
            Some(known) if self.known.memory_bytes >= memory_bytes => known,
            _ => memory::measure(device, memory_bytes)?,
        };
        let is_new = self.known.memory != Some(rates);
        (self.known.memory, self.known.memory_bytes) = (Some(rates), self.known.memory_bytes.max(memory_bytes));
        for operation in operations {
            let (op, operands) = (operation.op.as_ref(), operation.operands());
            let name = Class::of(op, operands.inputs, operands.outputs).name(op, &operands);
            if self.known.operations.contains_key(&name) {
                continue;
            }
            let time = if start.elapsed() < MOST_TIME {
                measuring::time(device, operation, rates.step_overhead_seconds, memory)?
            } else {
                None
            };
            match time {
                Some(time) => {
                    self.known.operations.insert(name, time);
                    measuring.measured += 1;
                }
                None => measuring.left += 1,
            }
        }
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let is_new = is_new || measuring.measured > 0;
        let threads = device.threads();
        measuring.is_disturbed = is_new && is_disturbed(before, processor_time(), threads);
        self.are_disturbed |= measuring.is_disturbed;
        if let Some(folder) = folder.filter(|_| is_new && !self.are_disturbed) {
            self.known.write(&file(folder, threads), &machine::key(threads));
        }
        measuring.time = start.elapsed();
        Ok(measuring)
    }

    /// Whether the first long operation with a known time takes much less time than it did: the machine was busy with
    /// something else when the times were measured.
    fn are_stale(&self, device: &mut Device, operations: &[Operation], memory: usize) -> Result<bool> {
        let Some(rates) = self.known.memory else {
            return Ok(false);
        };
        for operation in operations {
            let (op, operands) = (operation.op.as_ref(), operation.operands());
            let class = Class::of(op, operands.inputs, operands.outputs);
            let before = self.known.operations.get(&class.name(op, &operands));
            let before = before.map(|time| class.measured(time).seconds());
            if let Some(before) = before.filter(|seconds| *seconds >= TELLING) {
                let now = measuring::time(device, operation, rates.step_overhead_seconds, memory)?;
                return Ok(now.is_some_and(|now| class.measured(&now).seconds() < STALE * before));
            }
        }
        Ok(false)
    }
}

/// Whether other processes took processors from `threads` threads between two moments.
fn is_disturbed(before: Option<ProcessorTime>, after: Option<ProcessorTime>, threads: usize) -> bool {
    let Some((before, after)) = before.zip(after) else {
        return false;
    };
    let others = after.busy_with_others(&before);
    others.is_some_and(|others| others + threads as f64 > after.processors as f64 + BESIDE)
}
