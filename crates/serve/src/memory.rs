//! Memory that requests or answers share: its bytes are taken as they come, and are free again with their owner.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of a unit in which memory is taken.
const UNIT: usize = 1 << 10;

/// Bytes of a share that is small: a part of the memory is for small ones alone, so that they need not wait for large
/// ones.
const SMALL: usize = 256 << 10;

/// The parts of the memory, of which one is for small shares.
const PARTS: usize = 4;

/// Bytes of a share that take nothing: there is memory for so many beside, for every connection.
pub const FREE: usize = 8 << 10;

/// Memory that shares are taken of.
#[derive(Clone)]
pub struct Memory {
    /// The units that are free.
    room: Arc<Semaphore>,
    /// The units that are free for small shares.
    small: Arc<Semaphore>,
    /// Whether memory for the largest share is free, which the next one in line gets as a whole: so one can always go
    /// on.
    last: Arc<Semaphore>,
    bytes: usize,
}

impl Memory {
    /// Memory of `bytes`, and beside them for one share of at most `largest` bytes.
    pub fn new(bytes: usize, largest: usize) -> Memory {
        Memory {
            room: Arc::new(Semaphore::new((bytes - bytes / PARTS) / UNIT)),
            small: Arc::new(Semaphore::new(bytes / PARTS / UNIT)),
            last: Arc::new(Semaphore::new(1)),
            bytes: bytes.saturating_add(largest),
        }
    }

    /// All bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A share without bytes.
    pub fn share(&self) -> Share {
        Share {
            memory: self.clone(),
            bytes: 0,
            taken: None,
            small: None,
            last: None,
        }
    }
}

/// A part of a memory, which is free again when it is dropped.
pub struct Share {
    memory: Memory,
    bytes: usize,
    taken: Option<OwnedSemaphorePermit>,
    /// What it has of the memory for small shares.
    small: Option<OwnedSemaphorePermit>,
    last: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// The bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more bytes, where they are free; whether they are.
    pub fn try_grow(&mut self, more: usize) -> bool {
        let missing = self.missing(more);
        if missing > 0 {
            let small = self
                .is_small(more)
                .then(|| self.memory.small.clone().try_acquire_many_owned(missing));
            match (small, self.memory.room.clone()) {
                (Some(Ok(taken)), _) => join(&mut self.small, taken),
                (_, room) => match room.try_acquire_many_owned(missing) {
                    Ok(taken) => join(&mut self.taken, taken),
                    Err(_) => return false,
                },
            }
        }
        self.bytes = self.bytes.saturating_add(more);
        true
    }

    /// Takes more bytes when they are free.
    pub async fn grow(&mut self, more: usize) {
        if self.try_grow(more) {
            return;
        }
        let taken = self.memory.room.clone().acquire_many_owned(self.missing(more));
        let last = self.memory.last.clone().acquire_owned();
        let small = self.memory.small.clone().acquire_many_owned(self.missing(more));
        // None of them is ever closed.
        tokio::select! {
            biased;
            Ok(taken) = small, if self.is_small(more) => join(&mut self.small, taken),
            Ok(taken) = taken => join(&mut self.taken, taken),
            Ok(last) = last => self.last = Some(last),
        }
        self.bytes = self.bytes.saturating_add(more);
    }

    /// Takes over the bytes of another share of the same memory.
    pub fn merge(&mut self, mut other: Share) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        for (own, taken) in [
            (&mut self.taken, other.taken.take()),
            (&mut self.small, other.small.take()),
        ] {
            if let Some(taken) = taken {
                join(own, taken);
            }
        }
        self.last = self.last.take().or(other.last.take());
    }

    /// The units that so many bytes more need.
    fn missing(&self, more: usize) -> u32 {
        if self.last.is_some() {
            return 0;
        }
        let units = self.bytes.saturating_add(more).saturating_sub(FREE).div_ceil(UNIT);
        let permits = |own: &Option<OwnedSemaphorePermit>| own.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let taken = permits(&self.taken) + permits(&self.small);
        u32::try_from(units.saturating_sub(taken)).unwrap_or(u32::MAX)
    }

    /// Whether the share is small after it grows by `more` bytes.
    fn is_small(&self, more: usize) -> bool {
        self.bytes.saturating_add(more) <= SMALL
    }
}

/// Adds permits of the same semaphore to others.
fn join(own: &mut Option<OwnedSemaphorePermit>, more: OwnedSemaphorePermit) {
    match own {
        Some(own) => own.merge(more),
        None => *own = Some(more),
    }
}
