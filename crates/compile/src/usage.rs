//! Usage: what the arena holds in each step of a schedule.

use lessen_graph::{Phase, ValueId};

use crate::bytes;
use crate::offsets::aligned;
use crate::plan::Plan;
use crate::planned::Storage;
use crate::report::describe;

/// What the arena holds in one step of the schedule, in bytes, each buffer aligned as it lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepUsage {
    /// The operations of the step: `h.0.mlp gelu`, or `h.0.mlp add and 2 more`.
    pub name: String,
    /// The part of the training step that it belongs to.
    pub phase: Phase,
    /// Inputs that are data.
    pub inputs: usize,
    /// Values that the forward phase defines.
    pub forward: usize,
    /// Values that the backward phase defines: gradients and what is recomputed.
    pub backward: usize,
    /// Values that the update defines.
    pub update: usize,
    /// Scratch of the step's kernels, and the parts of its sums over rows.
    pub scratch: usize,
}

impl StepUsage {
    /// All bytes.
    pub fn total(&self) -> usize {
        let values = [self.inputs, self.forward, self.backward, self.update];
        bytes::sum(values.into_iter().chain([self.scratch]))
    }
}

/// The bytes of a value in the arena from one step to another.
struct Stay {
    offset: usize,
    first: usize,
    last: usize,
    bytes: usize,
    value: ValueId,
}

impl Plan {
    /// What the arena holds in each step, in order. The greatest total is [`Plan::arena_lower_bound`]; the arena is
    /// larger where values cannot be packed without gaps.
    pub fn usage(&self) -> Vec<StepUsage> {
        let steps = self.steps.len();
        // By how much inputs, forward, backward and update change at each step.
        let mut changes = vec![[0isize; 4]; steps + 1];
        for stay in self.stays() {
            let kind = match (self.graph.producer(stay.value), describe(&self.graph, stay.value).1) {
                (None, _) => 0,
                (_, Phase::Forward) => 1,
                (_, Phase::Backward) => 2,
                (_, Phase::Update) => 3,
            };
            changes[stay.first.min(steps)][kind] += stay.bytes as isize;
            changes[(stay.last + 1).min(steps)][kind] -= stay.bytes as isize;
        }
        let mut alive = [0; 4];
        let of_step = |(step, change): (usize, &[isize; 4])| {
            alive
                .iter_mut()
                .zip(change)
                .for_each(|(alive, change)| *alive += change);
            let [inputs, forward, backward, update] = alive.map(|bytes: isize| bytes as usize);
            StepUsage {
                inputs,
                forward,
                backward,
                update,
                ..self.scratch_of(step)
            }
        };
        changes[..steps].iter().enumerate().map(of_step).collect()
    }

    /// A step with its scratch alone.
    fn scratch_of(&self, number: usize) -> StepUsage {
        let step = &self.steps[number];
        let outputs = |index: usize| self.graph.nodes[step.nodes[index].index()].outputs[0];
        let (first, phase) = describe(&self.graph, outputs(0));
        let name = match step.nodes.len() {
            1 => first,
            count => format!("{first} and {} more", count - 1),
        };
        let parts = |value: ValueId, parts: usize| aligned(parts.saturating_mul(self.graph.ty(value).bytes()));
        let partials = step.partials.iter().map(|partial| parts(partial.value, partial.parts));
        let workers = aligned(step.scratch.bytes(self.workers));
        StepUsage {
            name,
            phase,
            inputs: 0,
            forward: 0,
            backward: 0,
            update: 0,
            scratch: bytes::sum(partials.chain([workers, aligned(step.shared_scratch)])),
        }
    }

    /// The values of the arena. Where one takes over the memory of another in the step in which that dies, the bytes
    /// count as the new value's from then on.
    fn stays(&self) -> Vec<Stay> {
        let mut stays: Vec<Stay> = (0..self.graph.values.len())
            .filter_map(|index| {
                let value = ValueId(index as u32);
                let ((first, last), Storage::Arena(offset)) = (self.lifetimes[index]?, self.storage[index]) else {
                    return None;
                };
                let bytes = aligned(self.graph.ty(value).bytes());
                let stay = Stay {
                    offset,
                    first,
                    last,
                    bytes,
                    value,
                };
                (bytes > 0).then_some(stay)
            })
            .collect();
        stays.sort_by_key(|stay| (stay.offset, stay.first));
        for index in 1..stays.len() {
            let (offset, first) = (stays[index].offset, stays[index].first);
            let before = &mut stays[index - 1];
            if before.offset == offset && before.last == first && before.first < first {
                before.last = first - 1;
            }
        }
        stays
    }
}
