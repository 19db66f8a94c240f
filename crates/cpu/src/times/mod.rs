//! What operations take on this machine: measured one by one, remembered by operation and shape, told to the planner.

mod cache;
mod machine;
mod measuring;
mod memory;
mod sample;

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lessen_base::Result;
use lessen_compile::{Measured, MeasuredMemory, Operands, Operation};
use lessen_device::Measuring;
use lessen_graph::Op;

pub(crate) use self::cache::folder;
use self::sample::Class;
use crate::device::Device;

/// The time that measuring may take, but for what is begun within it.
const MOST_TIME: Duration = Duration::from_secs(4);

/// Times are stale where an operation takes less than this part of its time.
const STALE: f64 = 0.8;

/// Seconds of an operation that is long enough to tell.
const TELLING: f64 = 1e-3;

/// What an operation takes, by the rows or elements that it is applied to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Time {
    /// Seconds whatever the number of rows.
    pub(crate) fixed: f64,
    /// Seconds of a row or an element.
    pub(crate) each: f64,
}

/// The times of operations on this machine.
#[derive(Debug, Default)]
pub(crate) struct Times {
    pub(crate) memory: Option<MeasuredMemory>,
    /// Bytes that the memory was measured with.
    pub(crate) memory_bytes: usize,
    /// By what tells operations apart; see [`Class::name`].
    pub(crate) operations: BTreeMap<String, Time>,
    /// What the planner has asked, by a hash of operation and types.
    asked: Mutex<HashMap<u64, Option<Measured>>>,
}

impl Times {
    /// What an operation takes, if it was measured.
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
        let time = self.operations.get(&class.name(op, operands));
        let measured = time.map(|time| class.measured(time));
        asked().insert(key, measured);
        measured
    }

    /// The times that a folder has of this program, this machine and so many threads.
    pub(crate) fn in_folder(folder: Option<&Path>, threads: usize) -> Times {
        let file = folder.map(|folder| cache::file(folder, threads));
        let read = file.and_then(|file| Times::read(&file, &machine::key(threads)));
        read.unwrap_or_default()
    }

    /// Measures those of the operations that are not known, the first ones first, within `memory` bytes, and keeps in
    /// the folder what is known then.
    pub(crate) fn measure(
        &mut self,
        device: &mut Device,
        operations: &[Operation],
        memory: usize,
        folder: Option<&Path>,
    ) -> Result<Measuring> {
        let start = Instant::now();
        let mut measuring = Measuring::default();
        if self.are_stale(device, operations, memory)? {
            *self = Times::default();
            if let Some(folder) = folder {
                cache::forget(&cache::file(folder, device.threads()));
            }
        }
        let memory_bytes = memory::bytes(memory);
        let rates = match self.memory {
            Some(known) if self.memory_bytes >= memory_bytes => known,
            _ => memory::measure(device, memory_bytes)?,
        };
        let is_new = self.memory != Some(rates);
        (self.memory, self.memory_bytes) = (Some(rates), self.memory_bytes.max(memory_bytes));
        for operation in operations {
            let (op, operands) = (operation.op.as_ref(), operation.operands());
            let name = Class::of(op, operands.inputs, operands.outputs).name(op, &operands);
            if self.operations.contains_key(&name) {
                continue;
            }
            let time = match start.elapsed() < MOST_TIME {
                true => measuring::time(device, operation, rates.step_overhead_seconds, memory)?,
                false => None,
            };
            match time {
                Some(time) => {
                    self.operations.insert(name, time);
                    measuring.measured += 1;
                }
                None => measuring.left += 1,
            }
        }
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if let Some(folder) = folder.filter(|_| is_new || measuring.measured > 0) {
            let threads = device.threads();
            self.write(&cache::file(folder, threads), &machine::key(threads));
        }
        measuring.time = start.elapsed();
        Ok(measuring)
    }

    /// Whether the first long one of the operations that are known takes much less time than it did: the machine was
    /// busy with something else when the times were measured.
    fn are_stale(&self, device: &mut Device, operations: &[Operation], memory: usize) -> Result<bool> {
        let Some(rates) = self.memory else { return Ok(false) };
        for operation in operations {
            let (op, operands) = (operation.op.as_ref(), operation.operands());
            let class = Class::of(op, operands.inputs, operands.outputs);
            let before = self.operations.get(&class.name(op, &operands));
            let before = before.map(|time| class.measured(time).seconds());
            if let Some(before) = before.filter(|seconds| *seconds >= TELLING) {
                let now = measuring::time(device, operation, rates.step_overhead_seconds, memory)?;
                return Ok(now.is_some_and(|now| class.measured(&now).seconds() < STALE * before));
            }
        }
        Ok(false)
    }
}
