//! Binding: a planned step becomes kernels with operands, and runs on the pool.

use lessen_compile::{ALIGNMENT, Plan, PlannedStep, RowsPlan, Storage};
use lessen_graph::{Node, NodeId, OutRole, Role, RowWise, ValueId};

use crate::clock::Clock;
use crate::faults::Faults;
use crate::operand::{Arg, Bases, Location, RowOperand, location};
use crate::pool::Pool;
use crate::row_kernels::{MAX_OPERANDS, RowKernel, Run, row_kernel};
use crate::single_kernels::{Single, Work, single_kernel};

/// Columns of the sums over rows that one task adds up.
const SUM_CHUNK: usize = 512;

/// A step bound to kernels.
pub(crate) struct Bound {
    kind: Kind,
    scratch_offset: usize,
    scratch_per_worker: usize,
    kernel_scratch: usize,
    /// End of the highest part of the arena that the step is handed.
    pub(crate) reach: usize,
}

enum Kind {
    Group {
        rows: RowsPlan,
        nodes: Vec<RowNode>,
        sums: Vec<Sum>,
    },
    Single {
        single: Single,
        inputs: Vec<Location>,
        outputs: Vec<Location>,
        product: bool,
    },
}

struct RowNode {
    kernel: RowKernel,
    inputs: Vec<RowOperand>,
    outputs: Vec<RowOutput>,
    /// Whether it runs tile by tile rather than block by block.
    tiled: bool,
    product: bool,
}

enum RowOutput {
    Rows(RowOperand),
    Sum(Sum),
}

/// A sum over rows: each tile adds to a part of its own, and the parts are added up in order.
#[derive(Clone, Copy)]
struct Sum {
    to: Location,
    /// Elements.
    len: usize,
    /// Byte of the arena where the parts lie, and how many there are; none where one tile holds all rows.
    parts: Option<(usize, usize)>,
}

/// Binds all steps of a plan. `constants` holds the byte of each constant.
pub(crate) fn bind(plan: &Plan, constants: &[usize]) -> Vec<Bound> {
    plan.steps()
        .iter()
        .map(|step| bind_step(plan, constants, step))
        .collect()
}

fn bind_step(plan: &Plan, constants: &[usize], step: &PlannedStep) -> Bound {
    let kind = match step.rows {
        Some(rows) => bind_group(plan, constants, step, rows),
        None => bind_single(plan, constants, &plan.graph().nodes[step.nodes[0].index()]),
    };
    let aligned = |bytes: usize| bytes.div_ceil(ALIGNMENT) * ALIGNMENT;
    let end_of = |v: ValueId| match plan.storage(v) {
        Storage::Arena(byte) => byte + aligned(plan.graph().ty(v).bytes()),
        _ => 0,
    };
    let values = step.nodes.iter().flat_map(|id| {
        let node = &plan.graph().nodes[id.index()];
        node.inputs
            .iter()
            .map(|&v| plan.place(v).base)
            .chain(node.outputs.iter().copied())
    });
    let partials = step
        .partials
        .iter()
        .map(|p| p.offset + aligned(p.parts * plan.graph().ty(p.value).bytes()));
    let scratch = step.scratch_offset + aligned(step.scratch_per_worker * plan.workers());
    let scratch = if step.scratch_per_worker == 0 { 0 } else { scratch };
    Bound {
        kind,
        scratch_offset: step.scratch_offset,
        scratch_per_worker: step.scratch_per_worker,
        kernel_scratch: step.kernel_scratch,
        reach: values.map(end_of).chain(partials).max().unwrap_or(0).max(scratch),
    }
}

fn bind_single(plan: &Plan, constants: &[usize], node: &Node) -> Kind {
    let strides: Vec<Vec<usize>> = node
        .inputs
        .iter()
        .map(|&v| plan.place(v).layout.strides.clone())
        .collect();
    let (inputs, outputs) = (plan.graph().input_types(node), plan.graph().output_types(node));
    Kind::Single {
        single: single_kernel(node.op.clone(), &inputs, &strides, &outputs),
        inputs: node
            .inputs
            .iter()
            .map(|&v| location(plan, constants, v))
            .collect(),
        outputs: node
            .outputs
            .iter()
            .map(|&v| location(plan, constants, v))
            .collect(),
        product: node.op.is_contraction(),
    }
}

fn bind_group(plan: &Plan, constants: &[usize], step: &PlannedStep, rows: RowsPlan) -> Kind {
    let nodes: Vec<RowNode> = step
        .nodes
        .iter()
        .map(|&id| bind_row_node(plan, constants, step, rows.rows, id))
        .collect();
    let sums = nodes
        .iter()
        .flat_map(|n| &n.outputs)
        .filter_map(|o| match o {
            RowOutput::Sum(sum) if sum.parts.is_some() => Some(*sum),
            _ => None,
        })
        .collect();
    Kind::Group { rows, nodes, sums }
}

fn bind_row_node(plan: &Plan, constants: &[usize], step: &PlannedStep, rows: usize, id: NodeId) -> RowNode {
    let node = &plan.graph().nodes[id.index()];
    let (in_types, out_types) = (plan.graph().input_types(node), plan.graph().output_types(node));
    let row_wise = plan.row_wise(id);
    let whole = |i: usize| match row_wise {
        RowWise::Rows { inputs, .. } => inputs[i] == Role::Whole,
        _ => in_types[i].rank() == 0 && out_types[0].rank() > 0,
    };
    let inputs = node
        .inputs
        .iter()
        .enumerate()
        .map(|(i, &v)| {
            if whole(i) {
                RowOperand::whole(plan, constants, v)
            } else {
                RowOperand::rows(plan, constants, v, rows)
            }
        })
        .collect();
    let sum = |k: usize| matches!(row_wise, RowWise::Rows { outputs, .. } if outputs[k] == OutRole::Sum);
    let outputs: Vec<RowOutput> = node
        .outputs
        .iter()
        .enumerate()
        .map(|(k, &v)| {
            if !sum(k) {
                return RowOutput::Rows(RowOperand::rows(plan, constants, v, rows));
            }
            let partial = step.partials.iter().find(|p| p.value == v);
            RowOutput::Sum(Sum {
                to: location(plan, constants, v),
                len: out_types[k].numel(),
                parts: partial.map(|p| (p.offset, p.parts)),
            })
        })
        .collect();
    let product = node.op.is_contraction();
    RowNode {
        kernel: row_kernel(node.op.as_ref(), &in_types, &out_types)
            .expect("the plan groups what has row kernels"),
        inputs,
        tiled: product || outputs.iter().any(|o| matches!(o, RowOutput::Sum(_))),
        outputs,
        product,
    }
}

/// A thread's place in a step.
struct Place<'a> {
    bases: &'a Bases,
    local: *mut u8,
    faults: &'a Faults,
    clock: &'a Clock,
}

impl Bound {
    /// Runs the step.
    pub(crate) fn run(&self, pool: &Pool, bases: &Bases, faults: &Faults, clock: &Clock) {
        let local = |worker: usize| {
            bases
                .arena
                .wrapping_add(self.scratch_offset + worker * self.scratch_per_worker)
        };
        match &self.kind {
            Kind::Group { rows, nodes, sums } => {
                pool.run(rows.rows.div_ceil(rows.block), &|task, worker| {
                    let place = Place {
                        bases,
                        local: local(worker),
                        faults,
                        clock,
                    };
                    let block = task * rows.block..rows.rows.min((task + 1) * rows.block);
                    for node in nodes {
                        let step = if node.tiled { rows.tile } else { rows.block };
                        for first in block.clone().step_by(step) {
                            node.run(&place, block.start, first..block.end.min(first + step), rows.tile);
                        }
                    }
                });
                add_parts(pool, bases, sums);
            }
            Kind::Single {
                single,
                inputs,
                outputs,
                product,
            } => {
                let at = |l: &Location| bases.of(l.region, std::ptr::null_mut()).wrapping_add(l.byte);
                let mut operands = [std::ptr::null_mut(); MAX_OPERANDS];
                let many: Vec<*mut u8>;
                let n = inputs.len() + outputs.len();
                let all = inputs.iter().chain(outputs).map(at);
                let operands = if n <= MAX_OPERANDS {
                    operands.iter_mut().zip(all).for_each(|(to, from)| *to = from);
                    Operands(&operands[..n])
                } else {
                    many = all.collect();
                    Operands(&many)
                };
                pool.run(single.tasks, &|task, worker| {
                    let (ins, outs) = operands.get().split_at(inputs.len());
                    let scratch = local(worker).wrapping_add(self.kernel_scratch);
                    let work = Work {
                        inputs: ins,
                        outputs: outs,
                        scratch,
                        faults,
                    };
                    clock.time(*product, || (single.run)(&work, task));
                });
            }
        }
    }
}

/// Addresses that the tasks of a step share.
#[derive(Clone, Copy)]
struct Operands<'a>(&'a [*mut u8]);

// SAFETY: the addresses are only dereferenced by kernels, on the parts of memory that belong to their task.
unsafe impl Sync for Operands<'_> {}

impl<'a> Operands<'a> {
    fn get(&self) -> &'a [*mut u8] {
        self.0
    }
}

impl RowNode {
    /// Runs the rows of one block or tile.
    fn run(&self, place: &Place<'_>, block: usize, rows: std::ops::Range<usize>, tile: usize) {
        let mut args = [Arg::NONE; MAX_OPERANDS];
        let (ins, outs) = args.split_at_mut(self.inputs.len());
        for (arg, output) in outs.iter_mut().zip(&self.outputs) {
            if let RowOutput::Sum(sum) = output {
                *arg = sum.part(place.bases, rows.start / tile);
            }
        }
        let mut first = rows.start;
        while first < rows.end {
            let operands = self
                .inputs
                .iter()
                .chain(self.outputs.iter().filter_map(|o| match o {
                    RowOutput::Rows(operand) => Some(operand),
                    RowOutput::Sum(_) => None,
                }));
            let n = operands
                .map(|o| o.uniform(first))
                .min()
                .unwrap_or(usize::MAX)
                .min(rows.end - first);
            for (arg, operand) in ins.iter_mut().zip(&self.inputs) {
                *arg = operand.arg(place.bases, place.local, block, first);
            }
            for (arg, output) in outs.iter_mut().zip(&self.outputs) {
                if let RowOutput::Rows(operand) = output {
                    *arg = operand.arg(place.bases, place.local, block, first);
                }
            }
            let outputs = &outs[..self.outputs.len()];
            let run = Run {
                n,
                first,
                inputs: ins,
                outputs,
                faults: place.faults,
            };
            place.clock.time(self.product, || (self.kernel)(&run));
            first += n;
        }
    }
}

impl Sum {
    /// The zeroed memory that a tile adds to.
    fn part(&self, bases: &Bases, tile: usize) -> Arg {
        let ptr = match self.parts {
            Some((offset, _)) => bases.arena.wrapping_add(offset + tile * self.len * self.to.size),
            None => bases
                .of(self.to.region, std::ptr::null_mut())
                .wrapping_add(self.to.byte),
        };
        // SAFETY: the plan gives each tile a part of `len` elements, and one task runs a tile.
        unsafe { ptr.write_bytes(0, self.len * self.to.size) };
        Arg {
            ptr,
            row: 0,
            col: 1,
            columns: self.len,
        }
    }
}

/// Adds up the parts of sums over rows, in the order of the rows.
fn add_parts(pool: &Pool, bases: &Bases, sums: &[Sum]) {
    if sums.is_empty() {
        return;
    }
    let chunks = |sum: &Sum| sum.len.div_ceil(SUM_CHUNK);
    pool.run(sums.iter().map(chunks).sum(), &|mut task, _| {
        for sum in sums {
            if task >= chunks(sum) {
                task -= chunks(sum);
                continue;
            }
            let Some((offset, parts)) = sum.parts else { return };
            let from = task * SUM_CHUNK;
            let n = SUM_CHUNK.min(sum.len - from);
            let to = bases
                .of(sum.to.region, std::ptr::null_mut())
                .wrapping_add(sum.to.byte)
                .cast::<f32>();
            let part = bases.arena.wrapping_add(offset).cast::<f32>();
            // SAFETY: the parts have been written by the tiles, `part` and `to` do not overlap, and tasks write
            // disjoint columns.
            unsafe {
                let to = std::slice::from_raw_parts_mut(to.add(from), n);
                to.fill(0.0);
                for p in 0..parts {
                    let part = std::slice::from_raw_parts(part.add(p * sum.len + from), n);
                    to.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
                }
            }
            return;
        }
    });
}
