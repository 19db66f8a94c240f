//! A row group: its nodes run over one row block after another, or, where all rows are one block, one after another
//! with each cut into tasks.

use std::ops::Range;

use lessen_compile::RowsPlan;

use crate::clock::{Clock, Timed};
use crate::index_errors::IndexErrors;
use crate::kernels::Rows;
use crate::kernels::kernel::{Arg, Cut, MAX_OPERANDS, Reads, RowKernel, Run};
use crate::operand::{Bases, Location, RowOperand};
use crate::pool::Pool;
use crate::slices::{COLUMNS, SliceSums};

/// Approximate number of tasks that a node of few rows is cut into, and the elements that are worth a task.
const TASKS: usize = 16;
const TASK_ELEMENTS: usize = 1 << 13;

/// A group bound to kernels.
pub(crate) struct Group {
    pub(crate) rows: RowsPlan,
    pub(crate) nodes: Vec<RowNode>,
}

/// A node of a group.
pub(crate) struct RowNode {
    pub(crate) kernel: RowKernel,
    pub(crate) inputs: Vec<RowOperand>,
    pub(crate) outputs: Vec<RowOutput>,
    /// Byte of the step's shared scratch where the node's shared scratch begins.
    pub(crate) shared: usize,
    pub(crate) timed: Timed,
}

/// An output of a node of a group.
pub(crate) enum RowOutput {
    Rows(RowOperand),
    Sum(Sum),
}

/// A sum over rows: each tile adds to a part of its own, and the parts are added up in order.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    pub(crate) to: Location,
    /// Elements.
    pub(crate) len: usize,
    /// Byte of the arena where the parts lie, and how many there are; none where one tile holds all rows.
    pub(crate) parts: Option<(usize, usize)>,
}

/// The scratch of a group.
#[derive(Clone, Copy)]
pub(crate) struct GroupScratch<'a> {
    /// Where the blocks of each worker lie.
    pub(crate) local: &'a (dyn Fn(usize) -> *mut u8 + Sync),
    /// Where the scratch of each worker's kernels lies.
    pub(crate) kernel: &'a (dyn Fn(usize) -> *mut u8 + Sync),
    /// The memory that all workers share.
    pub(crate) shared: *mut u8,
}

// SAFETY: the addresses are only dereferenced by kernels, on the parts of memory that the plan gives to their task.
unsafe impl Sync for GroupScratch<'_> {}

/// Data that the tasks of a step share.
pub(crate) struct Context<'a> {
    pub(crate) bases: &'a Bases,
    pub(crate) index_errors: &'a IndexErrors,
    pub(crate) clock: &'a Clock,
}

/// Rows and columns of one task of a node.
struct Piece {
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Group {
    /// Runs the group.
    pub(crate) fn run(&self, pool: &Pool, context: &Context<'_>, scratch: GroupScratch<'_>) {
        let rows = self.rows;
        if rows.is_one_tile() {
            return self.run_node_by_node(pool, context, scratch);
        }
        for node in &self.nodes {
            node.prepare(pool, context, scratch, 0);
        }
        pool.run(rows.rows.div_ceil(rows.block), &|task, worker| {
            let block = task * rows.block..rows.rows.min((task + 1) * rows.block);
            let memory = scratch.of(worker);
            for node in &self.nodes {
                let step = if node.is_tiled() { rows.tile } else { rows.block };
                for first in block.clone().step_by(step) {
                    let piece = Piece {
                        rows: first..block.end.min(first + step),
                        columns: 0..node.columns(),
                    };
                    node.run(context, memory, block.start, &piece, rows.tile);
                }
            }
        });
        self.add_parts(pool, context.bases);
    }

    /// Runs a group whose rows are one block and one tile: all workers share the first one's scratch, and each node is
    /// cut where its bits do not depend on it. So they do not depend on this way of running either.
    fn run_node_by_node(&self, pool: &Pool, context: &Context<'_>, scratch: GroupScratch<'_>) {
        for node in &self.nodes {
            node.prepare(pool, context, scratch, self.rows.rows);
            let (tasks, across) = node.tasks(self.rows.rows, pool.threads());
            let (height, width) = node.task_extents(self.rows.rows, pool.threads());
            let columns = node.columns();
            pool.run(tasks, &|task, worker| {
                let (i, j) = (task / across * height, task % across * width);
                let piece = Piece {
                    rows: i..self.rows.rows.min(i + height),
                    columns: j..if (task + 1) % across == 0 { columns } else { j + width },
                };
                node.run(context, scratch.of(worker), 0, &piece, self.rows.tile);
            });
        }
    }

    /// The most tasks at a time, with `threads` threads.
    pub(crate) fn tasks(&self, threads: usize) -> Option<usize> {
        let rows = self.rows;
        if !rows.is_one_tile() {
            return Some(rows.rows.div_ceil(rows.block));
        }
        self.nodes.iter().map(|node| node.tasks(rows.rows, threads).0).max()
    }

    /// Adds up the parts of sums over rows, in the order of the rows: first the parts of each slice, then the sums of
    /// the slices.
    fn add_parts(&self, pool: &Pool, bases: &Bases) {
        let sums = || {
            let outputs = self.nodes.iter().flat_map(|n| &n.outputs);
            outputs.filter_map(|o| match o {
                RowOutput::Sum(sum) => sum.parts.map(|(offset, parts)| (sum, offset, parts)),
                RowOutput::Rows(_) => None,
            })
        };
        let chunks = |sum: &Sum| sum.len.div_ceil(COLUMNS);
        let slices = SliceSums::new(self.rows.tile);
        pool.run(sums().map(|s| chunks(s.0)).sum(), &|mut task, _| {
            for (sum, offset, parts) in sums() {
                if task >= chunks(sum) {
                    task -= chunks(sum);
                    continue;
                }
                let from = task * COLUMNS;
                let n = COLUMNS.min(sum.len - from);
                let to = bases.at(sum.to, std::ptr::null_mut()).cast::<f32>();
                let part = bases.arena.wrapping_add(offset).cast::<f32>();
                // SAFETY: the parts have been written by the tiles, `part` and `to` do not overlap, and tasks write
                // disjoint columns.
                unsafe {
                    let to = std::slice::from_raw_parts_mut(to.add(from), n);
                    let part = |p: usize| std::slice::from_raw_parts(part.add(p * sum.len + from), n);
                    slices.sum(self.rows.rows, 0..parts, &part, to);
                }
                return;
            }
        });
    }
}

/// The memory of a task of a group.
#[derive(Clone, Copy)]
struct TaskMemory {
    /// Blocks of the group's values.
    local: *mut u8,
    /// Scratch of the kernels.
    kernel: *mut u8,
    /// Memory that all tasks share.
    shared: *mut u8,
}

impl GroupScratch<'_> {
    fn of(&self, worker: usize) -> TaskMemory {
        TaskMemory {
            local: (self.local)(worker),
            kernel: (self.kernel)(worker),
            shared: self.shared,
        }
    }
}

impl RowNode {
    /// Whether it runs tile by tile rather than block by block.
    pub(crate) fn is_tiled(&self) -> bool {
        self.kernel.tiled || self.outputs.iter().any(|o| matches!(o, RowOutput::Sum(_)))
    }

    /// Columns of the first output.
    fn columns(&self) -> usize {
        match &self.outputs[0] {
            RowOutput::Rows(operand) => operand.columns(),
            RowOutput::Sum(sum) => sum.len,
        }
    }

    /// Number of tasks where all rows are one block, and number of tasks side by side. The last task side by side has
    /// the remainder of the columns, too, unless cuts are even: a product of few columns may be computed in another
    /// order.
    fn tasks(&self, rows: usize, threads: usize) -> (usize, usize) {
        let (height, width) = self.task_extents(rows, threads);
        let across = match self.kernel.cut {
            Cut::Even { .. } => self.columns().div_ceil(width),
            _ => (self.columns() / width).max(1),
        };
        (rows.div_ceil(height) * across, across)
    }

    /// Rows and columns of one task where all rows are one block. They depend on shapes, and on the number of threads
    /// where no bits do.
    fn task_extents(&self, rows: usize, threads: usize) -> (usize, usize) {
        let all = (rows.max(1), self.columns().max(1));
        let by_rows = self.inputs.iter().filter(|operand| !operand.is_whole());
        let width = by_rows.map(RowOperand::columns).chain([all.1]).max().unwrap_or(1);
        let few_rows = TASK_ELEMENTS.div_ceil(width).max(rows.div_ceil(TASKS));
        match self.kernel.cut {
            Cut::No => all,
            Cut::Columns(columns) => (all.0, columns.min(all.1)),
            Cut::Even { parts, width } => {
                let columns = all.1.div_ceil(parts * threads).next_multiple_of(width);
                (all.0, columns.min(all.1))
            }
            Cut::Elements if rows < TASKS => {
                let columns = TASK_ELEMENTS.max(all.1.div_ceil(TASKS)).next_multiple_of(64);
                if columns < all.1 {
                    (1, columns)
                } else {
                    (few_rows.min(all.0), all.1)
                }
            }
            Cut::Rows | Cut::Elements => (few_rows.min(all.0), all.1),
        }
    }

    /// Prepares the kernel to run on `rows` rows.
    fn prepare(&self, pool: &Pool, context: &Context<'_>, scratch: GroupScratch<'_>, rows: usize) {
        let Some(prepare) = &self.kernel.prepare else {
            return;
        };
        pool.run(prepare.tasks, &|task, _| {
            let memory = scratch.of(0);
            let mut args = [Arg::NONE; MAX_OPERANDS];
            for (arg, operand) in args.iter_mut().zip(&self.inputs) {
                if operand.is_whole() || (rows > 0 && operand.is_matrix()) {
                    *arg = operand.arg(context.bases, memory.local, 0, 0);
                }
            }
            let run = Run {
                n: rows,
                first: 0,
                columns: (0, self.columns()),
                inputs: &args[..self.inputs.len()],
                outputs: &[],
                scratch: std::ptr::null_mut(),
                shared: memory.shared.wrapping_add(self.shared),
                index_errors: context.index_errors,
            };
            context.clock.time(self.timed, || (prepare.run)(&run, task));
        });
    }

    /// Runs some rows, and columns of them, of a block that begins at row `block`.
    fn run(&self, context: &Context<'_>, memory: TaskMemory, block: usize, piece: &Piece, tile: usize) {
        let local = memory.local;
        let Piece { rows, columns } = piece;
        let some = *columns != (0..self.columns());
        let mut args = [Arg::NONE; MAX_OPERANDS];
        let (ins, outs) = args.split_at_mut(self.inputs.len());
        for (arg, output) in outs.iter_mut().zip(&self.outputs) {
            if let RowOutput::Sum(sum) = output {
                *arg = sum.part(context.bases, rows.start / tile, some.then_some(columns));
            }
        }
        let arg = |operand: &RowOperand, first: usize| {
            let arg = operand.arg(context.bases, local, block, first);
            match self.kernel.cut {
                Cut::Elements if some => operand.cut(arg, columns.start, columns.len()),
                _ => arg,
            }
        };
        let mut first = rows.start;
        while first < rows.end {
            let outputs = self.outputs.iter().filter_map(|o| match o {
                RowOutput::Rows(operand) => Some(operand),
                RowOutput::Sum(_) => None,
            });
            let uniform = self.inputs.iter().chain(outputs).map(|o| o.uniform(first)).min();
            let n = uniform.unwrap_or(usize::MAX).min(rows.end - first);
            for (to, operand) in ins.iter_mut().zip(&self.inputs) {
                *to = arg(operand, first);
            }
            for (to, output) in outs.iter_mut().zip(&self.outputs) {
                if let RowOutput::Rows(operand) = output {
                    *to = arg(operand, first);
                }
            }
            let run = Run {
                n,
                first: first * self.columns() + columns.start,
                columns: (columns.start, columns.end),
                inputs: ins,
                outputs: &outs[..self.outputs.len()],
                scratch: memory.kernel,
                shared: memory.shared.wrapping_add(self.shared),
                index_errors: context.index_errors,
            };
            context.clock.time(self.timed, || (self.kernel.run)(&run));
            first += n;
        }
    }
}

impl Sum {
    /// The memory that a tile adds to. Sets `columns` of it to zero, or all columns.
    fn part(&self, bases: &Bases, tile: usize, columns: Option<&Range<usize>>) -> Arg {
        let ptr = match self.parts {
            Some((offset, _)) => bases.arena.wrapping_add(offset + tile * self.len * self.to.size),
            None => bases.at(self.to, std::ptr::null_mut()),
        };
        let all = 0..self.len;
        let columns = columns.unwrap_or(&all);
        // SAFETY: the plan gives each tile a part of `len` elements, and one task runs these columns of a tile.
        unsafe {
            ptr.add(columns.start * self.to.size)
                .write_bytes(0, columns.len() * self.to.size);
        }
        let sums = Rows { ptr, row: 0, col: 1 };
        Arg::new(sums, self.len, Reads::Dense)
    }
}
