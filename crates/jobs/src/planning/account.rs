//! The account of a run's memory: the most bytes that its process is going to have resident, by parts, device and host
//! apart.

use lessen_train::show_size;
use serde_json::{Map, Value, json};
use std::cmp::Reverse;

/// Bytes by which the smallest budget of a run exceeds its account: a process that is started in another folder or with
/// other flags takes some KiB more or less.
const SLACK: usize = 128 << 10;

/// The part of small allocations that the allocator holds beside them: their heads and rounding, and gaps between
/// them.
const GAPS: usize = 3;

/// Bytes that the allocator holds beside that: the free end of its heap, and caches of threads.
const HEAP: usize = 1 << 20;

/// The account is rounded up to a multiple of this number of bytes, so that it does not depend on the lengths of flags.
const WHOLE: usize = 64 << 10;

/// The smallest budget is a multiple of this number of bytes.
const ROUNDING: usize = 16 << 10;

/// Most bytes on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceAccount {
    /// Parameters, optimizer state and sums of gradients.
    pub states: usize,
    /// Constants and results of the plans.
    pub constants: usize,
    /// Values of steps and evaluations.
    pub arena: usize,
    /// Workspace of matrix products.
    pub workspace: usize,
}

/// Most bytes in the host's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostAccount {
    /// The program and its libraries, as far as they can be resident, and the stacks of threads; 0 where no allocator
    /// counts.
    pub code: usize,
    /// The process before it reads anything.
    pub process: usize,
    /// Data, tokenizer and threads; none where the recipe names no data.
    pub data: Option<usize>,
    /// Compiled steps and evaluations for all layouts of batches.
    pub programs: usize,
    /// Batches that are made ahead.
    pub batches: usize,
    /// Most bytes that compiling, evaluating and saving take for a moment.
    pub transient: usize,
    /// Bytes that the allocator holds beside what is allocated; 0 where no allocator counts.
    pub allocator: usize,
}

/// Most bytes that a process has resident for a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// Bytes on the device.
    pub device: DeviceAccount,
    /// Bytes in the host's memory.
    pub host: HostAccount,
}

impl DeviceAccount {
    /// All bytes on the device.
    pub fn total(&self) -> usize {
        self.plans() + self.workspace
    }

    /// Bytes that the plans announce: states, constants and arena.
    pub fn plans(&self) -> usize {
        self.states + self.constants + self.arena
    }

    fn named(&self) -> [(&'static str, Option<usize>); 4] {
        [
            ("workspace", Some(self.workspace)),
            ("states", Some(self.states)),
            ("constants", Some(self.constants)),
            ("arena", Some(self.arena)),
        ]
    }
}

impl HostAccount {
    /// All bytes in the host's memory.
    pub fn total(&self) -> usize {
        self.code + self.allocated() + self.allocator
    }

    /// The bytes that are allocated.
    fn allocated(&self) -> usize {
        self.process + self.data.unwrap_or(0) + self.programs + self.batches + self.transient
    }

    fn named(&self) -> [(&'static str, Option<usize>); 7] {
        [
            ("code", Some(self.code)),
            ("process", Some(self.process)),
            ("data", self.data),
            ("programs", Some(self.programs)),
            ("batches", Some(self.batches)),
            ("transient", Some(self.transient)),
            ("allocator", Some(self.allocator)),
        ]
    }
}

impl Account {
    /// All bytes.
    pub fn total(&self) -> usize {
        self.device.total() + self.host.total()
    }

    /// Bytes that are allocated.
    pub fn allocated(&self) -> usize {
        self.device.total() + self.host.allocated()
    }

    /// Adds what a process has resident beside its allocations: `code` bytes of program, libraries and stacks, and
    /// what the allocator holds, `held` bytes of it from earlier work of the process. Of process and data `small` bytes
    /// are in small allocations, and all of programs and moments.
    pub(crate) fn with_unallocated(mut self, code: usize, small: usize, held: usize) -> Account {
        let host = &mut self.host;
        host.code = code;
        host.allocator = HEAP + (small + host.programs + host.transient) / GAPS + held;
        self.host.allocator += self.total().next_multiple_of(WHOLE) - self.total();
        self
    }

    /// Bytes that the plans announce: states, constants and arena.
    pub fn plans(&self) -> usize {
        self.device.plans()
    }

    /// Bytes that the process takes beside its plans.
    pub(crate) fn beside_plans(&self) -> usize {
        self.total() - self.plans()
    }

    /// The smallest budget that a run with this account accepts.
    pub(crate) fn smallest_budget(&self) -> usize {
        (self.total() + SLACK).next_multiple_of(ROUNDING)
    }

    /// All parts with their names: parts of the host, then of the device, then of the host again.
    pub fn named(&self) -> [(&'static str, Option<usize>); 11] {
        let [code, process, data, programs, batches, transient, allocator] = self.host.named();
        let [workspace, states, constants, arena] = self.device.named();
        [
            code, process, data, workspace, states, constants, arena, programs, batches, transient, allocator,
        ]
    }

    /// One JSON object with a key for each part.
    pub fn to_json(self) -> Value {
        object(&self.named())
    }

    /// One JSON object with an object for the parts of the device and one for the parts of the host.
    pub(crate) fn split_to_json(self) -> Value {
        json!({ "device": object(&self.device.named()), "host": object(&self.host.named()) })
    }

    /// The parts in words, the largest first: `states 1.1 GiB, arena 300 MiB`. Parts below a hundredth are left out.
    pub fn show(&self) -> String {
        let mut parts: Vec<(usize, &str)> = self.named().map(|(name, bytes)| (bytes.unwrap_or(0), name)).to_vec();
        parts.retain(|(bytes, _)| bytes * 100 >= self.total());
        parts.sort_by_key(|(bytes, _)| Reverse(*bytes));
        let shown = parts
            .into_iter()
            .map(|(bytes, name)| format!("{name} {}", show_size(bytes)));
        shown.collect::<Vec<_>>().join(", ")
    }
}

fn object(parts: &[(&str, Option<usize>)]) -> Value {
    let fields = parts.iter().map(|(name, bytes)| (name.to_string(), json!(bytes)));
    Value::Object(Map::from_iter(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_sum_up_and_are_shown_by_size() {
        let account = Account {
            device: DeviceAccount {
                states: 64 << 20,
                arena: 30 << 20,
                ..DeviceAccount::default()
            },
            host: HostAccount {
                process: 1 << 20,
                batches: 1000,
                ..HostAccount::default()
            },
        };
        assert_eq!(account.total(), (95 << 20) + 1000);
        let named: usize = account.named().into_iter().filter_map(|(_, bytes)| bytes).sum();
        assert_eq!(named, account.total());
        assert_eq!(account.show(), "states 64.0 MiB, arena 30.0 MiB, process 1.0 MiB");
        assert_eq!(account.to_json()["data"], Value::Null);
        assert_eq!(account.smallest_budget(), (95 << 20) + (144 << 10));
    }

    #[test]
    fn what_is_resident_and_not_allocated_is_added_once() {
        let account = Account {
            host: HostAccount {
                data: Some(12 << 20),
                ..HostAccount::default()
            },
            ..Account::default()
        };
        let whole = account.with_unallocated(5 << 20, 6 << 20, 0);
        assert_eq!((whole.allocated(), whole.total()), (12 << 20, (12 + 5 + 2 + 1) << 20));
        assert_eq!(whole.with_unallocated(5 << 20, 6 << 20, 0), whole);
        assert_eq!(whole.with_unallocated(0, 6 << 20, 5 << 20).total(), 20 << 20);
    }

    #[test]
    fn device_and_host_have_every_part_once() {
        let account = Account {
            device: DeviceAccount {
                states: 1,
                constants: 2,
                arena: 4,
                workspace: 8,
            },
            host: HostAccount {
                process: 16,
                data: Some(32),
                programs: 64,
                batches: 128,
                transient: 256,
                code: 512,
                allocator: 1024,
            },
        };
        assert_eq!((account.device.total(), account.host.total()), (15, 2032));
        assert_eq!(
            (account.plans(), account.beside_plans(), account.total()),
            (7, 2040, 2047)
        );
        let (whole, split) = (account.to_json(), account.split_to_json());
        let parts = |side: &str| split[side].as_object().unwrap().clone();
        let joined: Map<String, Value> = parts("device").into_iter().chain(parts("host")).collect();
        assert_eq!((joined.len(), account.allocated()), (11, 511));
        assert!(joined.iter().all(|(name, bytes)| whole[name] == *bytes));
    }
}
