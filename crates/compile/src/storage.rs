//! Storage: finds the lifetimes of values, keeps values that no other plan step reads in the scratch of their row
//! group, lets outputs take over the memory of dying inputs, and packs everything else into the arena.

use lessen_graph::{Graph, InputKind, OutRole, Role, RowWise, ValueId};

use crate::bytes;
use crate::node_types::NodeTypes;
use crate::offsets::{Buffer, aligned, lower_bound, pack};
use crate::place::Place;
use crate::planned::{Partial, PlannedStep, RowsPlan, StepScratch, Storage};
use crate::schedule::Step;
use crate::state::StateWrites;
use crate::target::{RowGroup, Scratch, Target};

/// A scheduled graph.
pub(crate) struct Program<'a> {
    pub graph: &'a Graph,
    pub types: &'a NodeTypes,
    pub places: &'a [Place],
    /// How the device runs each node by rows.
    pub row_wise: &'a [RowWise],
    /// For each node whether it must run on tiles of rows.
    pub tiled: &'a [bool],
    /// For each node the scratch memory of its kernel.
    pub scratch: &'a [Scratch],
    pub steps: &'a [Step],
    pub constants: &'a [ValueId],
}

/// The memory of a scheduled graph.
pub(crate) struct Memory {
    pub storage: Vec<Storage>,
    pub steps: Vec<PlannedStep>,
    pub lifetimes: Vec<Option<(usize, usize)>>,
    pub arena_bytes: usize,
    pub lower_bound: usize,
}

/// A buffer of the arena, by its position in the list of buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BufferId(usize);

/// The memory of a plan step, before buffers have offsets.
struct Draft {
    rows: Option<RowsPlan>,
    scratch: Option<BufferId>,
    /// Sizes of the scratch, without its offset.
    sizes: StepScratch,
    /// The scratch that all workers share, and its bytes.
    shared: Option<(BufferId, usize)>,
    partials: Vec<(ValueId, BufferId, usize)>,
}

struct StorageAssigner<'a> {
    program: &'a Program<'a>,
    target: &'a dyn Target,
    /// First and last plan step of each base.
    first: Vec<usize>,
    last: Vec<usize>,
    storage: Vec<Storage>,
    buffers: Vec<Buffer>,
    /// The buffer of each base in the arena.
    buffer_of: Vec<Option<BufferId>>,
    /// For each base its reads in the current plan step: the position of the node and of its input.
    reads: Vec<Vec<(usize, usize)>>,
}

pub(crate) fn assign_storage(program: &Program<'_>, writes: &StateWrites, target: &dyn Target) -> Memory {
    let graph = program.graph;
    let n = graph.values.len();
    let mut assigner = StorageAssigner {
        program,
        target,
        first: vec![0; n],
        last: vec![0; n],
        storage: vec![Storage::None; n],
        buffers: Vec::new(),
        buffer_of: vec![None; n],
        reads: vec![Vec::new(); n],
    };
    for (i, input) in graph.inputs.iter().enumerate() {
        if input.kind == InputKind::State {
            assigner.storage[input.value.index()] = Storage::State(i);
        }
    }
    for (i, value) in program.constants.iter().enumerate() {
        assigner.storage[value.index()] = Storage::Constant(i);
    }
    for (value, target) in &writes.in_place {
        assigner.storage[value.index()] = assigner.storage[target.index()];
    }
    assigner.lifetimes(writes);
    for input in graph.inputs.iter().filter(|i| i.kind == InputKind::Data) {
        assigner.buffer(input.value);
    }
    let drafts: Vec<Draft> = (0..program.steps.len()).map(|s| assigner.step(s)).collect();

    let (offsets, arena_bytes) = pack(&assigner.buffers);
    for (v, buffer) in assigner.buffer_of.iter().enumerate() {
        if let Some(b) = buffer {
            assigner.storage[v] = Storage::Arena(offsets[b.0]);
        }
    }
    let steps = program.steps.iter().zip(drafts);
    let steps = steps.map(|(step, draft)| draft.placed(step, &offsets)).collect();
    let lifetimes = (0..n)
        .map(|v| matches!(assigner.storage[v], Storage::Arena(_)).then(|| (assigner.first[v], assigner.last[v])))
        .collect();
    Memory {
        storage: assigner.storage,
        steps,
        lifetimes,
        arena_bytes,
        lower_bound: lower_bound(&assigner.buffers),
    }
}

impl Draft {
    /// The plan step with its buffers at their offsets.
    fn placed(self, step: &Step, offsets: &[usize]) -> PlannedStep {
        let partial = |(value, buffer, parts): (ValueId, BufferId, usize)| Partial {
            value,
            offset: offsets[buffer.0],
            parts,
        };
        PlannedStep {
            nodes: step.nodes.clone(),
            rows: self.rows,
            scratch: StepScratch {
                offset: self.scratch.map_or(0, |buffer| offsets[buffer.0]),
                ..self.sizes
            },
            shared_offset: self.shared.map_or(0, |(buffer, _)| offsets[buffer.0]),
            shared_scratch: self.shared.map_or(0, |(_, bytes)| bytes),
            partials: self.partials.into_iter().map(partial).collect(),
        }
    }
}

impl StorageAssigner<'_> {
    fn base(&self, v: ValueId) -> ValueId {
        self.program.places[v.index()].base
    }

    fn lifetimes(&mut self, writes: &StateWrites) {
        let program = self.program;
        for (s, step) in program.steps.iter().enumerate() {
            for node in step.nodes.iter().map(|id| &program.graph.nodes[id.index()]) {
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
        let end = program.steps.len();
        let outputs = program.graph.outputs.iter().map(|o| o.value);
        for v in outputs.chain(writes.copies.iter().map(|a| a.value)) {
            let base = self.base(v).index();
            self.last[base] = end;
        }
    }

    fn buffer(&mut self, v: ValueId) {
        let i = v.index();
        let bytes = self.program.graph.ty(v).bytes();
        self.buffer_of[i] = Some(self.new_buffer(bytes, self.first[i], self.last[i]));
    }

    fn new_buffer(&mut self, bytes: usize, first: usize, last: usize) -> BufferId {
        self.buffers.push(Buffer { bytes, first, last });
        BufferId(self.buffers.len() - 1)
    }

    /// Records, or forgets, which nodes of a step read each base.
    fn note_reads(&mut self, step: &Step, on: bool) {
        for (position, id) in step.nodes.iter().enumerate() {
            for (i, &input) in self.program.graph.nodes[id.index()].inputs.iter().enumerate() {
                let base = self.base(input).index();
                if on {
                    self.reads[base].push((position, i));
                } else {
                    self.reads[base].clear();
                }
            }
        }
    }

    /// Plans the memory of a step.
    fn step(&mut self, s: usize) -> Draft {
        let program = self.program;
        let step = &program.steps[s];
        let rows = step.rows.map(|rows| self.rows_plan(step, rows));
        self.note_reads(step, true);
        let mut locals: Vec<(ValueId, Buffer)> = Vec::new();
        let mut partials = Vec::new();
        let one_tile = rows.is_some_and(|rows| rows.is_one_tile());
        let mut kernel_bytes = Scratch::default();
        for (position, id) in step.nodes.iter().enumerate() {
            let node = &program.graph.nodes[id.index()];
            let (_, outputs) = program.types.of_node(id.index());
            kernel_bytes.add(program.scratch[id.index()], one_tile);
            let row_wise = &program.row_wise[id.index()];
            for (k, &v) in node.outputs.iter().enumerate() {
                let sum = matches!(row_wise, RowWise::Rows { outputs, .. } if outputs[k] == OutRole::Sum);
                if let (true, Some(plan)) = (sum, rows) {
                    let parts = plan.rows.div_ceil(plan.tile).max(1);
                    if parts > 1 {
                        let buffer = self.new_buffer(parts.saturating_mul(outputs[k].bytes()), s, s);
                        partials.push((v, buffer, parts));
                    }
                }
                if self.storage[v.index()] != Storage::None {
                    continue;
                }
                if let Some(plan) = rows
                    && !sum
                    && self.last[v.index()] == s
                {
                    // No node outside the group reads the value: memory for one row block is enough.
                    let row_bytes = outputs[k].bytes() / plan.rows.max(1);
                    let last = self.reads[v.index()].last().map_or(position, |read| read.0);
                    let local = Buffer {
                        bytes: row_bytes.saturating_mul(plan.block),
                        first: position,
                        last,
                    };
                    locals.push((v, local));
                } else if let Some(buffer) = self.inherited(step, s, position, k) {
                    self.buffers[buffer.0].last = self.last[v.index()];
                    self.buffer_of[v.index()] = Some(buffer);
                } else {
                    self.buffer(v);
                }
            }
        }
        self.note_reads(step, false);
        let (offsets, local_bytes) = pack(&locals.iter().map(|l| l.1).collect::<Vec<_>>());
        for ((v, _), offset) in locals.iter().zip(offsets) {
            self.storage[v.index()] = Storage::Local(offset);
        }
        let sizes = StepScratch {
            offset: 0,
            local: local_bytes,
            kernel: aligned(kernel_bytes.worker),
            one_tile,
        };
        let all = sizes.bytes(self.target.limits().workers);
        Draft {
            rows,
            scratch: (all > 0).then(|| self.new_buffer(all, s, s)),
            sizes,
            shared: (kernel_bytes.shared > 0)
                .then(|| (self.new_buffer(kernel_bytes.shared, s, s), kernel_bytes.shared)),
            partials,
        }
    }

    /// Cuts a row group into row blocks and tiles.
    fn rows_plan(&self, step: &Step, rows: usize) -> RowsPlan {
        let program = self.program;
        let (mut tiled, mut sum) = (false, 0);
        let mut touched: Vec<ValueId> = Vec::new();
        for id in &step.nodes {
            let (node, row_wise) = (&program.graph.nodes[id.index()], &program.row_wise[id.index()]);
            tiled |= program.tiled[id.index()];
            let whole = |i: usize| matches!(row_wise, RowWise::Rows { inputs, .. } if inputs[i] == Role::Whole);
            let by_rows = node.inputs.iter().enumerate().filter(|(i, _)| !whole(*i));
            touched.extend(by_rows.map(|(_, &v)| self.base(v)));
            for (k, &v) in node.outputs.iter().enumerate() {
                match row_wise {
                    RowWise::Rows { outputs, .. } if outputs[k] == OutRole::Sum => {
                        sum = sum.max(program.graph.ty(v).numel());
                    }
                    _ => touched.push(v),
                }
            }
        }
        touched.sort_unstable();
        touched.dedup();
        let row_bytes = bytes::sum(touched.iter().map(|&v| program.graph.ty(v).bytes() / rows.max(1)));
        let group = RowGroup {
            rows,
            row_bytes,
            tiled,
            sum,
        };
        RowsPlan::new(rows, self.target.blocks(&group))
    }

    /// The buffer of an input that dies in this step and whose memory output `k` of the node at `position` can take
    /// over.
    fn inherited(&self, step: &Step, s: usize, position: usize, k: usize) -> Option<BufferId> {
        let graph = self.program.graph;
        let id = step.nodes[position];
        let node = &graph.nodes[id.index()];
        let (inputs, outputs) = self.program.types.of_node(id.index());
        (0..node.inputs.len()).find_map(|i| {
            let base = self.base(node.inputs[i]);
            let buffer = self.buffer_of[base.index()]?;
            let dies = self.last[base.index()] == s && self.buffers[buffer.0].last == s;
            let earlier = self.first[base.index()] < s && graph.producer(base).is_some();
            let same = graph.ty(base).bytes() == outputs[k].bytes();
            let fits = dies && earlier && same && graph.ask(node, inputs, outputs).in_place(i, k);
            (fits && self.only_read_in_line(step, position, k, base)).then_some(buffer)
        })
    }

    /// Whether no node of the step reads `base` after `position`, every reader reads it row by row, and the node at
    /// `position` may write where it reads.
    fn only_read_in_line(&self, step: &Step, position: usize, k: usize, base: ValueId) -> bool {
        let program = self.program;
        self.reads[base.index()].iter().all(|&(p, i)| {
            let id = step.nodes[p];
            let node = &program.graph.nodes[id.index()];
            let ty = program.graph.ty(node.inputs[i]);
            let layout = &program.places[node.inputs[i].index()].layout;
            let dense =
                layout.offset == 0 && layout.is_dense(&ty.shape) && ty.numel() == program.graph.ty(base).numel();
            let by_rows = match &program.row_wise[id.index()] {
                RowWise::Rows { inputs, .. } => inputs[i] == Role::Rows,
                RowWise::Elementwise => true,
                RowWise::No => step.nodes.len() == 1,
            };
            let here = p != position || {
                let (inputs, outputs) = program.types.of_node(id.index());
                program.graph.ask(node, inputs, outputs).in_place(i, k)
            };
            p <= position && dense && by_rows && here
        })
    }
}
