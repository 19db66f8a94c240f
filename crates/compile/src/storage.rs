//! Storage: lifetimes of values over the steps, values that never leave a group's scratch, outputs that take over a
//! dying input's memory, and the packing of all that into the arena.

use lessen_graph::ops::MatMul;
use lessen_graph::{Graph, InputKind, OutRole, Role, RowWise, ValueId};

use crate::layout::Place;
use crate::offsets::{ALIGNMENT, Buffer, lower_bound, pack};
use crate::plan::{Partial, PlannedStep, RowsPlan, Storage};
use crate::schedule::Step;
use crate::state::StateWrites;
use crate::{TILE_ROWS, Target};

/// What the plan takes over.
pub(crate) struct Memory {
    pub storage: Vec<Storage>,
    pub steps: Vec<PlannedStep>,
    pub lifetimes: Vec<Option<(usize, usize)>>,
    pub arena_bytes: usize,
    pub lower_bound: usize,
}

struct Planner<'a> {
    graph: &'a Graph,
    places: &'a [Place],
    row_wise: &'a [RowWise],
    steps: &'a [Step],
    target: &'a dyn Target,
    /// First and last step of each base.
    first: Vec<usize>,
    last: Vec<usize>,
    storage: Vec<Storage>,
    buffers: Vec<Buffer>,
    /// The buffer of each base in the arena.
    buffer_of: Vec<Option<usize>>,
}

pub(crate) fn assign_storage(
    graph: &Graph,
    places: &[Place],
    row_wise: &[RowWise],
    steps: &[Step],
    writes: &StateWrites,
    constants: &[ValueId],
    target: &dyn Target,
) -> Memory {
    let n = graph.values.len();
    let mut planner = Planner {
        graph,
        places,
        row_wise,
        steps,
        target,
        first: vec![0; n],
        last: vec![0; n],
        storage: vec![Storage::None; n],
        buffers: Vec::new(),
        buffer_of: vec![None; n],
    };
    for (i, input) in graph.inputs.iter().enumerate() {
        if input.kind == InputKind::State {
            planner.storage[input.value.index()] = Storage::State(i);
        }
    }
    for (i, value) in constants.iter().enumerate() {
        planner.storage[value.index()] = Storage::Constant(i);
    }
    for (value, target) in &writes.in_place {
        planner.storage[value.index()] = planner.storage[target.index()];
    }
    planner.lifetimes(writes);
    for input in graph.inputs.iter().filter(|i| i.kind == InputKind::Data) {
        planner.buffer(input.value);
    }
    let mut planned: Vec<PlannedStep> = (0..steps.len()).map(|s| planner.step(s)).collect();

    let (offsets, arena_bytes) = pack(&planner.buffers);
    for (v, buffer) in planner.buffer_of.iter().enumerate() {
        if let Some(b) = buffer {
            planner.storage[v] = Storage::Arena(offsets[*b]);
        }
    }
    for step in &mut planned {
        // Until here the offsets were numbers of buffers.
        if step.scratch_per_thread > 0 {
            step.scratch_offset = offsets[step.scratch_offset];
        }
        for partial in &mut step.partials {
            partial.offset = offsets[partial.offset];
        }
    }
    let lifetimes = (0..n)
        .map(|v| matches!(planner.storage[v], Storage::Arena(_)).then(|| (planner.first[v], planner.last[v])))
        .collect();
    Memory {
        storage: planner.storage,
        steps: planned,
        lifetimes,
        arena_bytes,
        lower_bound: lower_bound(&planner.buffers),
    }
}

impl Planner<'_> {
    fn base(&self, v: ValueId) -> ValueId {
        self.places[v.index()].base
    }

    fn lifetimes(&mut self, writes: &StateWrites) {
        for (s, step) in self.steps.iter().enumerate() {
            for node in step.nodes.iter().map(|id| &self.graph.nodes[id.index()]) {
                for &v in &node.outputs {
                    self.first[v.index()] = s;
                    self.last[v.index()] = s;
                }
                for &v in &node.inputs {
                    let base = self.base(v).index();
                    self.last[base] = s;
                }
            }
        }
        let end = self.steps.len();
        let results = self
            .graph
            .outputs
            .iter()
            .map(|o| o.value)
            .chain(writes.copies.iter().map(|a| a.value));
        for v in results.collect::<Vec<_>>() {
            let base = self.base(v).index();
            self.last[base] = end;
        }
    }

    fn buffer(&mut self, v: ValueId) -> usize {
        let i = v.index();
        self.buffers.push(Buffer {
            bytes: self.graph.ty(v).bytes(),
            first: self.first[i],
            last: self.last[i],
        });
        self.buffer_of[i] = Some(self.buffers.len() - 1);
        self.buffers.len() - 1
    }

    /// Plans the memory of a step; offsets in the arena are still numbers of buffers.
    fn step(&mut self, s: usize) -> PlannedStep {
        let step = self.steps[s].clone();
        let rows = step.rows.map(|rows| self.rows_plan(&step, rows));
        let mut locals: Vec<(ValueId, Buffer)> = Vec::new();
        let mut partials = Vec::new();
        let mut kernel_bytes = 0;
        for (position, id) in step.nodes.iter().enumerate() {
            let node = &self.graph.nodes[id.index()];
            let (inputs, outputs) = (self.graph.input_types(node), self.graph.output_types(node));
            kernel_bytes = kernel_bytes.max(self.target.scratch_bytes(node.op.as_ref(), &inputs));
            let row_wise = &self.row_wise[id.index()];
            for (k, &v) in node.outputs.iter().enumerate() {
                let sum = matches!(row_wise, RowWise::Rows { outputs, .. } if outputs[k] == OutRole::Sum);
                if let (true, Some(plan)) = (sum, rows) {
                    let parts = plan.rows.div_ceil(plan.tile).max(1);
                    if parts > 1 {
                        let bytes = parts * outputs[k].bytes();
                        self.buffers.push(Buffer {
                            bytes,
                            first: s,
                            last: s,
                        });
                        partials.push(Partial {
                            value: v,
                            offset: self.buffers.len() - 1,
                            parts,
                        });
                    }
                }
                if self.storage[v.index()] != Storage::None {
                    continue;
                }
                if let Some(plan) = rows
                    && !sum
                    && self.last[v.index()] == s
                {
                    // Nobody outside the group reads it: one block of it is enough.
                    let row_bytes = outputs[k].bytes() / plan.rows.max(1);
                    let last = self.last_position(&step, v).unwrap_or(position);
                    locals.push((
                        v,
                        Buffer {
                            bytes: row_bytes * plan.block,
                            first: position,
                            last,
                        },
                    ));
                } else if let Some(buffer) = self.inherited(&step, s, position, k) {
                    self.buffers[buffer].last = self.last[v.index()];
                    self.buffer_of[v.index()] = Some(buffer);
                } else {
                    self.buffer(v);
                }
            }
        }
        let (offsets, local_bytes) = pack(&locals.iter().map(|l| l.1).collect::<Vec<_>>());
        for ((v, _), offset) in locals.iter().zip(offsets) {
            self.storage[v.index()] = Storage::Local(offset);
        }
        let per_thread = local_bytes + kernel_bytes.div_ceil(ALIGNMENT) * ALIGNMENT;
        let mut scratch_offset = 0;
        if per_thread > 0 {
            self.buffers.push(Buffer {
                bytes: per_thread * self.target.threads(),
                first: s,
                last: s,
            });
            scratch_offset = self.buffers.len() - 1;
        }
        PlannedStep {
            nodes: step.nodes,
            rows,
            scratch_offset,
            scratch_per_thread: per_thread,
            kernel_scratch: local_bytes,
            partials,
        }
    }

    fn last_position(&self, step: &Step, v: ValueId) -> Option<usize> {
        step.nodes.iter().rposition(|id| {
            self.graph.nodes[id.index()]
                .inputs
                .iter()
                .any(|&input| self.base(input) == v)
        })
    }

    /// Rows of a block: whole tiles where products or sums need them, else as many as fit the cache with all that the
    /// group touches.
    fn rows_plan(&self, step: &Step, rows: usize) -> RowsPlan {
        let mut tiled = false;
        let mut touched: Vec<ValueId> = Vec::new();
        for id in &step.nodes {
            let (node, row_wise) = (&self.graph.nodes[id.index()], &self.row_wise[id.index()]);
            tiled |= node.op.as_ref().is::<MatMul>();
            let whole =
                |i: usize| matches!(row_wise, RowWise::Rows { inputs, .. } if inputs[i] == Role::Whole);
            touched.extend(
                node.inputs
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| !whole(*i))
                    .map(|(_, &v)| self.base(v)),
            );
            for (k, &v) in node.outputs.iter().enumerate() {
                match row_wise {
                    RowWise::Rows { outputs, .. } if outputs[k] == OutRole::Sum => tiled = true,
                    _ => touched.push(v),
                }
            }
        }
        touched.sort_unstable();
        touched.dedup();
        let row_bytes: usize = touched
            .iter()
            .map(|&v| self.graph.ty(v).bytes() / rows.max(1))
            .sum();
        let fitting = (self.target.cache_bytes() / 2 / row_bytes.max(1)).max(1);
        let tile = TILE_ROWS.min(rows).max(1);
        let block = if tiled {
            (fitting / tile).clamp(1, rows.div_ceil(tile).div_ceil(16).max(1)) * tile
        } else {
            fitting.min(rows.div_ceil(16)).max(1)
        };
        RowsPlan {
            rows,
            block: block.min(rows.max(1)),
            tile,
        }
    }

    /// The buffer of an input that dies here and whose memory output `k` of the node at `position` can take over.
    fn inherited(&self, step: &Step, s: usize, position: usize, k: usize) -> Option<usize> {
        let node = &self.graph.nodes[step.nodes[position].index()];
        let (inputs, outputs) = (self.graph.input_types(node), self.graph.output_types(node));
        (0..node.inputs.len()).find_map(|i| {
            let base = self.base(node.inputs[i]);
            let buffer = self.buffer_of[base.index()]?;
            let dies = self.last[base.index()] == s && self.buffers[buffer].last == s;
            let earlier = self.first[base.index()] < s && self.graph.producer(base).is_some();
            let same = self.graph.ty(base).bytes() == outputs[k].bytes();
            let fits = dies && earlier && same && node.op.in_place(i, k, &inputs, &outputs);
            (fits && self.only_read_in_line(step, position, k, base)).then_some(buffer)
        })
    }

    /// Whether within a step nobody reads `base` after `position`, every reader reads it row by row, and the node at
    /// `position` itself may write where it reads it.
    fn only_read_in_line(&self, step: &Step, position: usize, k: usize, base: ValueId) -> bool {
        step.nodes.iter().enumerate().all(|(p, id)| {
            let node = &self.graph.nodes[id.index()];
            let (inputs, outputs) = (self.graph.input_types(node), self.graph.output_types(node));
            let row_wise = &self.row_wise[id.index()];
            node.inputs
                .iter()
                .enumerate()
                .filter(|(_, v)| self.base(**v) == base)
                .all(|(i, &v)| {
                    let place = &self.places[v.index()];
                    let dense = place.layout.offset == 0
                        && place.layout.is_dense(&inputs[i].shape)
                        && inputs[i].numel() == self.graph.ty(base).numel();
                    let by_rows = match row_wise {
                        RowWise::Rows { inputs, .. } => inputs[i] == Role::Rows,
                        RowWise::Elementwise => true,
                        RowWise::No => step.nodes.len() == 1,
                    };
                    let here = p != position || node.op.in_place(i, k, &inputs, &outputs);
                    p <= position && dense && by_rows && here
                })
        })
    }
}
