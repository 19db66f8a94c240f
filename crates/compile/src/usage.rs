//! Usage: the contents of the arena in each plan step.

use lessen_graph::{Phase, ValueId};

use crate::bytes;
use crate::offsets::aligned;
use crate::plan::Plan;
use crate::planned::Storage;
use crate::value_name::describe;

/// The contents of the arena in one plan step, in bytes, each buffer with its alignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepUsage {
    /// The operations of the step: `h.0.mlp gelu`, or `h.0.mlp add and 2 more`.
    pub name: String,
    /// The phase that it belongs to.
    pub phase: Phase,
    /// Data inputs.
    pub inputs: usize,
    /// Values that the forward phase defines.
    pub forward: usize,
    /// Values that the backward phase defines: gradients and recomputed values.
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

/// A value that occupies bytes of the arena from one plan step to another.
struct Occupancy {
    offset: usize,
    first: usize,
    last: usize,
    bytes: usize,
    value: ValueId,
}

impl Plan {
    /// The contents of the arena in each plan step, in order. The greatest total is [`Plan::arena_lower_bound`]; the
    /// arena is larger where values cannot be packed without gaps.
    pub fn usage(&self) -> Vec<StepUsage> {
        let steps = self.steps.len();
        // For each step the change of bytes of inputs, forward, backward and update.
        let mut changes = vec![[0isize; 4]; steps + 1];
        for occupancy in self.occupancies() {
            let kind = match (
                self.graph.producer(occupancy.value),
                describe(&self.graph, occupancy.value).1,
            ) {
                (None, _) => 0,
                (_, Phase::Forward) => 1,
                (_, Phase::Backward) => 2,
                (_, Phase::Update) => 3,
            };
            changes[occupancy.first.min(steps)][kind] += occupancy.bytes as isize;
            changes[(occupancy.last + 1).min(steps)][kind] -= occupancy.bytes as isize;
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

    /// The usage of a step, with its scratch alone.
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

    /// The values of the arena. Where a value takes over the memory of one that dies in the same step, the bytes count
    /// as the new value's from then on.
    fn occupancies(&self) -> Vec<Occupancy> {
        let mut occupancies: Vec<Occupancy> = (0..self.graph.values.len())
            .filter_map(|index| {
                let value = ValueId(index as u32);
                let ((first, last), Storage::Arena(offset)) = (self.lifetimes[index]?, self.storage[index]) else {
                    return None;
                };
                let bytes = aligned(self.graph.ty(value).bytes());
                let occupancy = Occupancy {
                    offset,
                    first,
                    last,
                    bytes,
                    value,
                };
                (bytes > 0).then_some(occupancy)
            })
            .collect();
        occupancies.sort_by_key(|occupancy| (occupancy.offset, occupancy.first));
        for index in 1..occupancies.len() {
            let (offset, first) = (occupancies[index].offset, occupancies[index].first);
            let before = &mut occupancies[index - 1];
            if before.offset == offset && before.last == first && before.first < first {
                before.last = first - 1;
            }
        }
        occupancies
    }
}
