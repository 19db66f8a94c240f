//! Checks a plan without running it: plays its steps on a memory that remembers which value was last written where, so
//! that no step reads what something else has overwritten, nothing is left out, and states end as they should.

use std::collections::HashMap;

use lessen_compile::{Plan, PlannedStep, Storage};
use lessen_graph::{InputKind, Node, NodeId, Role, RowWise, ValueId};

/// Contents of a range of bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Tag {
    Value(ValueId),
    Scratch,
}

/// Ranges of bytes with the contents that were last written there.
#[derive(Default)]
struct Memory {
    ranges: Vec<(usize, usize, Tag)>,
}

impl Memory {
    fn write(&mut self, start: usize, len: usize, tag: Tag) {
        self.ranges.retain(|&(s, e, _)| e <= start || start + len <= s);
        if len > 0 {
            self.ranges.push((start, start + len, tag));
        }
    }

    fn holds(&self, start: usize, len: usize, value: ValueId) -> bool {
        len == 0 || self.ranges.contains(&(start, start + len, Tag::Value(value)))
    }
}

struct Checker<'a> {
    plan: &'a Plan,
    arena: Memory,
    /// The value that each state holds, by the position of the state among the inputs.
    states: HashMap<usize, ValueId>,
}

/// Checks everything that a plan promises about its memory.
///
/// # Errors
/// A sentence that names the mistake in the plan, for a programmer.
pub fn check(plan: &Plan) -> Result<(), String> {
    each_node_once(plan)?;
    alive_apart(plan)?;
    let mut checker = Checker {
        plan,
        arena: Memory::default(),
        states: HashMap::new(),
    };
    for (i, input) in plan.graph().inputs.iter().enumerate() {
        match input.kind {
            InputKind::State => {
                checker.states.insert(i, input.value);
            }
            InputKind::Data => checker.write_value(input.value)?,
        }
    }
    for (s, step) in plan.steps().iter().enumerate() {
        checker.step(step).map_err(|e| format!("step {s}: {e}"))?;
    }
    checker.end()
}

fn node(plan: &Plan, id: NodeId) -> &Node {
    &plan.graph().nodes[id.index()]
}

fn base(plan: &Plan, value: ValueId) -> ValueId {
    plan.place(value).base
}

/// Every node that is neither a view nor a constant belongs to exactly one step.
fn each_node_once(plan: &Plan) -> Result<(), String> {
    let mut times = vec![0; plan.graph().nodes.len()];
    for id in plan.steps().iter().flat_map(|s| &s.nodes) {
        times[id.index()] += 1;
    }
    for (i, node) in plan.graph().nodes.iter().enumerate() {
        let view = node.outputs.iter().all(|&v| base(plan, v) != v);
        let expected = usize::from(!view && !node.inputs.is_empty());
        if times[i] != expected {
            return Err(format!(
                "node {i} ({}) runs {} times, not {expected}",
                node.op.name(),
                times[i]
            ));
        }
    }
    Ok(())
}

/// Values of the arena that are alive in the same step lie apart, but for an output that takes over all of a value that
/// is read for the last time in that step.
fn alive_apart(plan: &Plan) -> Result<(), String> {
    let values: Vec<(usize, usize, usize, (usize, usize))> = (0..plan.graph().values.len())
        .filter_map(|v| match plan.storage(ValueId(v as u32)) {
            Storage::Arena(at) => {
                let len = plan.graph().ty(ValueId(v as u32)).bytes();
                Some((
                    v,
                    at,
                    len,
                    plan.lifetime(ValueId(v as u32))
                        .expect("values of the arena have lifetimes"),
                ))
            }
            _ => None,
        })
        .collect();
    for (i, &(a, at, len, (first, last))) in values.iter().enumerate() {
        if at + len > plan.arena_bytes() {
            return Err(format!("%{a} ends after the arena"));
        }
        for &(b, other_at, other_len, (other_first, other_last)) in &values[i + 1..] {
            let together = first <= other_last && other_first <= last;
            let overlap = at < other_at + other_len && other_at < at + len;
            let taken_over = (last == other_first || other_last == first) && (at, len) == (other_at, other_len);
            if together && overlap && !taken_over {
                return Err(format!("%{a} and %{b} are alive together and overlap"));
            }
        }
    }
    Ok(())
}

impl Checker<'_> {
    fn bytes(&self, value: ValueId) -> usize {
        self.plan.graph().ty(value).bytes()
    }

    fn write_value(&mut self, value: ValueId) -> Result<(), String> {
        let len = self.bytes(value);
        match self.plan.storage(value) {
            Storage::Arena(at) => self.arena.write(at, len, Tag::Value(value)),
            Storage::State(i) => {
                self.states.insert(i, value);
            }
            Storage::Local(_) => {}
            other => return Err(format!("%{} is written but lies in {other:?}", value.0)),
        }
        Ok(())
    }

    /// Whether a base is where the plan says, and nothing else has been written over it.
    fn intact(&self, value: ValueId) -> Result<(), String> {
        let ok = match self.plan.storage(value) {
            Storage::Arena(at) => self.arena.holds(at, self.bytes(value), value),
            Storage::State(i) => self.states.get(&i) == Some(&value),
            Storage::Constant(i) => self.plan.constants().get(i) == Some(&value),
            Storage::Local(_) | Storage::None => false,
        };
        if ok {
            Ok(())
        } else {
            Err(format!("%{} is read but is not there", value.0))
        }
    }

    fn step(&mut self, step: &PlannedStep) -> Result<(), String> {
        let plan = self.plan;
        let mut made: Vec<ValueId> = Vec::new();
        let scratch = step.scratch.bytes(plan.workers());
        if step.scratch.offset + scratch > plan.arena_bytes() && scratch > 0 {
            return Err("the scratch ends after the arena".to_string());
        }
        self.arena.write(step.scratch.offset, scratch, Tag::Scratch);
        if step.shared_offset + step.shared_scratch > plan.arena_bytes() {
            return Err("the shared scratch ends after the arena".to_string());
        }
        self.arena.write(step.shared_offset, step.shared_scratch, Tag::Scratch);
        for partial in &step.partials {
            let len = partial.parts * self.bytes(partial.value);
            if partial.offset + len > plan.arena_bytes() {
                return Err("a partial sum ends after the arena".to_string());
            }
            self.arena.write(partial.offset, len, Tag::Scratch);
        }
        self.locals_apart(step)?;
        for (position, &id) in step.nodes.iter().enumerate() {
            let node = node(plan, id);
            for &input in &node.inputs {
                let base = base(plan, input);
                if matches!(plan.storage(base), Storage::Local(_)) && made.contains(&base) {
                    continue;
                }
                self.intact(base).map_err(|e| format!("{}: {e}", node.op.name()))?;
            }
            for &output in &node.outputs {
                self.may_overwrite(step, position, output)?;
                self.write_value(output)?;
                made.push(output);
            }
        }
        let still = |tag: &Tag| match tag {
            Tag::Scratch => Ok(()),
            Tag::Value(value) => self.intact(*value),
        };
        made.iter().try_for_each(|v| match plan.storage(*v) {
            Storage::Arena(_) => still(&Tag::Value(*v)),
            _ => Ok(()),
        })
    }

    /// In a group one block of rows runs through all nodes before another begins: where an output is written over a
    /// value that the group reads, all of the group's readers must come no later and read the very rows that are
    /// written.
    fn may_overwrite(&self, step: &PlannedStep, position: usize, output: ValueId) -> Result<(), String> {
        let plan = self.plan;
        let (to, len) = (plan.storage(output), self.bytes(output));
        for (p, &id) in step.nodes.iter().enumerate() {
            let reader = node(plan, id);
            for (i, &input) in reader.inputs.iter().enumerate() {
                let read = base(plan, input);
                let overlap = match (to, plan.storage(read)) {
                    (Storage::Arena(a), Storage::Arena(b)) => a < b + self.bytes(read) && b < a + len,
                    (Storage::State(a), Storage::State(b)) => a == b,
                    _ => false,
                };
                if !overlap || read == output {
                    continue;
                }
                let layout = &plan.place(input).layout;
                let shape = &plan.graph().ty(input).shape;
                let same_bytes = plan.storage(read) == to && self.bytes(read) == len;
                let whole = layout.offset == 0 && layout.is_dense(shape) && self.bytes(input) == len;
                let by_rows = match &plan.row_wise(id) {
                    RowWise::No => step.nodes.len() == 1,
                    RowWise::Elementwise => plan.graph().ty(input).rank() > 0 || len == self.bytes(input),
                    RowWise::Rows { inputs, .. } => inputs[i] == Role::Rows,
                };
                if p > position || !same_bytes || !whole || !by_rows {
                    return Err(format!(
                        "%{} is written over %{} while {} reads it",
                        output.0,
                        read.0,
                        reader.op.name()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Values of the group's scratch that are needed at the same time lie apart and below the kernels' scratch.
    fn locals_apart(&self, step: &PlannedStep) -> Result<(), String> {
        let plan = self.plan;
        let Some(rows) = step.rows else { return Ok(()) };
        let mut locals = Vec::new();
        for (position, &id) in step.nodes.iter().enumerate() {
            for &v in &node(plan, id).outputs {
                if let Storage::Local(at) = plan.storage(v) {
                    let reads = |id: &NodeId| node(plan, *id).inputs.iter().any(|&i| base(plan, i) == v);
                    let last = step.nodes.iter().rposition(reads).unwrap_or(position);
                    let len = self.bytes(v) / rows.rows.max(1) * rows.block;
                    locals.push((v, at, at + len, position, last));
                }
            }
        }
        for (i, &(a, start, end, first, last)) in locals.iter().enumerate() {
            if end > step.scratch.local {
                return Err(format!("the block of %{} reaches into the kernels' scratch", a.0));
            }
            for &(b, other_start, other_end, other_first, other_last) in &locals[i + 1..] {
                let together = first <= other_last && other_first <= last;
                if together && start < other_end && other_start < end {
                    return Err(format!("the blocks of %{} and %{} overlap", a.0, b.0));
                }
            }
        }
        Ok(())
    }

    /// Results are there, and after the copies every assigned state holds its new value.
    fn end(mut self) -> Result<(), String> {
        let plan = self.plan;
        for output in &plan.graph().outputs {
            self.intact(base(plan, output.value))
                .map_err(|e| format!("output `{}`: {e}", output.name))?;
        }
        for copy in plan.copies() {
            let place = &plan.place(copy.value);
            let Storage::State(target) = plan.storage(copy.target) else {
                return Err("a copy to what is no state".to_string());
            };
            self.intact(place.base)?;
            if !place.layout.is_dense(&plan.graph().ty(copy.value).shape) {
                return Err(format!("%{} is copied to a state but is not dense", copy.value.0));
            }
            self.states.insert(target, copy.value);
        }
        for assign in &plan.graph().assigns {
            let Storage::State(target) = plan.storage(assign.target) else {
                return Err("an assignment to what is no state".to_string());
            };
            if self.states[&target] != assign.value {
                return Err(format!(
                    "a state holds %{}, not %{}",
                    self.states[&target].0, assign.value.0
                ));
            }
        }
        Ok(())
    }
}
