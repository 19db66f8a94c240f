//! Binding: a planned step becomes kernels with operands, and runs on the pool.
//!
//! A plan is trusted to keep the memory of values apart, since only the compiler makes plans. Its lowerings are not
//! trusted, since its target may have been another device's: the kernel of each node is made once more and compared
//! with its lowering in the plan.

use lessen_base::{Error, Result};
use lessen_compile::{ALIGNMENT, Plan, PlannedStep, RowsPlan, Scratch, StepScratch, Storage, aligned};
use lessen_device::checks::check_evaluation;
use lessen_graph::ops::Scan;
use lessen_graph::{Node, NodeId, OutRole, Role, RowWise, Type, ValueId};

use crate::clock::{Clock, Timed};
use crate::group::{Context, Group, GroupScratch, RowNode, RowOutput, Sum};
use crate::index_errors::IndexErrors;
use crate::kernels::kernel::{FixInput, FixedInput, Input, Kernel, MAX_OPERANDS, Reads, Round, RowKernel, Types, Work};
use crate::kernels::reference::reference;
use crate::kernels::table;
use crate::operand::{Location, RowOperand, location, strides};
use crate::pool::Pool;
use crate::scan::{Body, BodyStep, BoundScan};

/// A step bound to kernels.
pub(crate) struct Bound {
    body: StepBody,
    scratch: StepScratch,
    shared_offset: usize,
    /// End of the highest part of the arena that the step is handed.
    pub(crate) reach: usize,
}

impl Bound {
    /// Greatest number of tasks into which a round of the step, or a node of its row group, is cut for `threads`
    /// threads; none where the step has no work.
    pub(crate) fn tasks(&self, threads: usize) -> Option<usize> {
        match &self.body {
            StepBody::Group(group) => group.tasks(threads),
            StepBody::Whole(whole) => whole.rounds.iter().map(|round| round.tasks).max(),
            StepBody::Scan(scan) => scan.tasks(threads),
        }
    }
}

enum StepBody {
    Group(Group),
    Whole(Whole),
    Scan(Box<BoundScan>),
}

/// A node that runs by itself.
pub(crate) struct Whole {
    rounds: Vec<Round>,
    /// The replacement of the rounds where an input never changes, if there is one.
    pub(crate) fixed: Option<FixInput>,
    /// Where inputs are, with the layouts that the kernel has declared.
    inputs: Vec<(Location, Reads)>,
    outputs: Vec<Location>,
    pub(crate) timed: Timed,
}

/// The data for binding a plan: the plan, and the byte of each constant.
pub(crate) struct Binder<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) constants: &'a [usize],
}

/// The types of a node.
struct NodeTypes {
    inputs: Vec<Type>,
    outputs: Vec<Type>,
}

impl NodeTypes {
    fn types(&self) -> Types<'_> {
        Types {
            inputs: &self.inputs,
            outputs: &self.outputs,
        }
    }
}

/// The error of a plan that was compiled for another target.
fn of_another_target(node: &Node) -> Error {
    Error::internal(format!(
        "the plan runs `{}` as this device does not; compile for this device's target",
        node.op.name()
    ))
}

impl Binder<'_> {
    /// Binds all steps.
    ///
    /// # Errors
    /// A plan that was compiled for a target that answers otherwise than this device.
    pub(crate) fn bind(&self) -> Result<Vec<Bound>> {
        self.plan.steps().iter().map(|step| self.step(step)).collect()
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.plan.graph().nodes[id.index()]
    }

    fn types(&self, node: &Node) -> NodeTypes {
        NodeTypes {
            inputs: self.plan.graph().input_types(node),
            outputs: self.plan.graph().output_types(node),
        }
    }

    fn step(&self, step: &PlannedStep) -> Result<Bound> {
        let body = match step.rows {
            Some(rows) => StepBody::Group(self.group(step, rows)?),
            None => self.alone(step)?,
        };
        Ok(Bound {
            body,
            scratch: step.scratch,
            shared_offset: step.shared_offset,
            reach: self.reach(step),
        })
    }

    /// End of the highest part of the arena that a step is handed.
    fn reach(&self, step: &PlannedStep) -> usize {
        let plan = self.plan;
        let values = step.nodes.iter().flat_map(|&id| {
            let node = self.node(id);
            let bases = node.inputs.iter().map(|&v| plan.place(v).base);
            bases.chain(node.outputs.iter().copied())
        });
        let ends = values.map(|v| end_of(plan, v));
        let partials = step.partials.iter();
        let partials = partials.map(|p| p.offset + aligned(p.parts * plan.graph().ty(p.value).bytes()));
        let scratch = match step.scratch.bytes(plan.workers()) {
            0 => 0,
            bytes => step.scratch.offset + aligned(bytes),
        };
        let shared = match step.shared_scratch {
            0 => 0,
            bytes => step.shared_offset + aligned(bytes),
        };
        ends.chain(partials).chain([scratch, shared]).max().unwrap_or(0)
    }

    /// Whether a kernel reads all inputs of a node where they lie.
    fn accepts(&self, kernel: &Kernel, node: &Node, types: Types<'_>) -> bool {
        let reads = kernel.reads(node.op.as_ref(), types);
        let values = node.inputs.iter().zip(types.inputs).zip(reads);
        values
            .into_iter()
            .all(|((&value, ty), reads)| reads.admits(&ty.shape, &self.plan.place(value).layout))
    }

    /// A node that runs by itself.
    fn alone(&self, step: &PlannedStep) -> Result<StepBody> {
        let node = self.node(step.nodes[0]);
        let Some(scan) = node.op.downcast_ref::<Scan>() else {
            return self.whole(step).map(StepBody::Whole);
        };
        let body = Body::new(scan, self.plan.workers())?;
        let is_dense = |&v: &ValueId| self.plan.place(v).layout.is_dense(&self.plan.graph().ty(v).shape);
        if !has_scratch(step, body.scratch()) || !node.inputs.iter().all(is_dense) {
            return Err(of_another_target(node));
        }
        let steps = Binder {
            plan: &body.plan,
            constants: &body.constants.offsets,
        }
        .bind()?;
        let steps = steps.into_iter().map(|step| Box::new(step) as Box<dyn BodyStep>);
        let at = |values: &[ValueId]| values.iter().map(|&v| self.location(v)).collect();
        let (inputs, outputs, timed) = (at(&node.inputs), at(&node.outputs), Timed::of(self.plan, step.nodes[0]));
        let bound = BoundScan::new(body, steps.collect(), inputs, outputs, timed);
        Ok(StepBody::Scan(Box::new(bound)))
    }

    fn whole(&self, step: &PlannedStep) -> Result<Whole> {
        let node = self.node(step.nodes[0]);
        let strides: Vec<Vec<usize>> = node.inputs.iter().map(|&v| strides(self.plan, v)).collect();
        let node_types = self.types(node);
        let types = node_types.types();
        let inputs = |reads: &dyn Fn(usize) -> Reads| {
            let inputs = node.inputs.iter().enumerate();
            inputs.map(|(i, &v)| (self.location(v), reads(i))).collect()
        };
        let (rounds, fixed, inputs) = match table::kernel(node.op.as_ref(), &types) {
            None => {
                check_evaluation(types.inputs.iter().chain(types.outputs))?;
                let rounds = reference(node.op.clone(), types, &strides);
                (rounds, None, inputs(&|_| Reads::Any))
            }
            Some(kernel) => {
                let accepted = self.accepts(&kernel, node, types);
                match kernel {
                    Kernel::Whole(kernel) if accepted && has_scratch(step, kernel.scratch) => {
                        let inputs = inputs(&|i| kernel.reads(i));
                        ((kernel.rounds)(&strides), kernel.fixed, inputs)
                    }
                    _ => return Err(of_another_target(node)),
                }
            }
        };
        Ok(Whole {
            rounds,
            fixed,
            inputs,
            outputs: node.outputs.iter().map(|&v| self.location(v)).collect(),
            timed: Timed::of(self.plan, step.nodes[0]),
        })
    }

    fn group(&self, step: &PlannedStep, rows: RowsPlan) -> Result<Group> {
        let nodes = step.nodes.iter().map(|&id| self.row_node(step, rows, id));
        let mut nodes = nodes.collect::<Result<Vec<_>>>()?;
        let mut needed = Scratch::default();
        for node in &mut nodes {
            node.shared = needed.add(node.kernel.scratch, rows.is_one_tile());
        }
        if !has_scratch(step, needed) {
            return Err(of_another_target(self.node(step.nodes[0])));
        }
        let group = Group { rows, nodes };
        let cut_within_a_tile = rows.block < rows.rows && !rows.block.is_multiple_of(rows.tile);
        match step.nodes.iter().zip(&group.nodes).find(|(_, n)| n.is_tiled()) {
            Some((&id, _)) if cut_within_a_tile => Err(of_another_target(self.node(id))),
            _ => Ok(group),
        }
    }

    fn row_node(&self, step: &PlannedStep, rows: RowsPlan, id: NodeId) -> Result<RowNode> {
        let node = self.node(id);
        let node_types = self.types(node);
        let kernel = self.row_kernel(node, node_types.types())?;
        let row_wise = self.plan.row_wise(id);
        if kernel.roles.as_ref().is_some_and(|roles| roles != row_wise) {
            return Err(of_another_target(node));
        }
        let whole = |i: usize| match row_wise {
            RowWise::Rows { inputs, .. } => inputs[i] == Role::Whole,
            _ => node_types.inputs[i].rank() == 0 && node_types.outputs[0].rank() > 0,
        };
        let refused = || of_another_target(node);
        let by_rows = |v: ValueId, reads: Reads| {
            RowOperand::rows(self.plan, self.constants, v, rows.rows, reads).ok_or_else(refused)
        };
        let inputs = node.inputs.iter().enumerate().map(|(i, &v)| {
            let role = match row_wise {
                RowWise::Rows { inputs, .. } => inputs[i],
                _ => Role::Rows,
            };
            let reads = kernel.reads(i, role);
            if whole(i) {
                RowOperand::whole(self.plan, self.constants, v, reads).ok_or_else(refused)
            } else {
                by_rows(v, reads)
            }
        });
        let sum = |k: usize| matches!(row_wise, RowWise::Rows { outputs, .. } if outputs[k] == OutRole::Sum);
        let outputs = node.outputs.iter().enumerate().map(|(k, &v)| {
            if !sum(k) {
                return by_rows(v, Reads::Dense).map(RowOutput::Rows);
            }
            let partial = step.partials.iter().find(|p| p.value == v);
            let parts = partial.map(|p| (p.offset, p.parts));
            if parts.map_or(1, |p| p.1) < rows.rows.div_ceil(rows.tile) {
                return Err(refused());
            }
            Ok(RowOutput::Sum(Sum {
                to: self.location(v),
                len: node_types.outputs[k].numel(),
                parts,
            }))
        });
        let (inputs, outputs) = (inputs.collect::<Result<_>>()?, outputs.collect::<Result<_>>()?);
        Ok(RowNode {
            kernel,
            inputs,
            outputs,
            shared: 0,
            timed: Timed::of(self.plan, id),
        })
    }

    fn row_kernel(&self, node: &Node, types: Types<'_>) -> Result<RowKernel> {
        let kernel = table::kernel(node.op.as_ref(), &types).ok_or_else(|| of_another_target(node))?;
        let few = types.inputs.len() + types.outputs.len() <= MAX_OPERANDS;
        let accepted = few && self.accepts(&kernel, node, types);
        match kernel {
            Kernel::Rows(kernel) if accepted => Ok(kernel),
            _ => Err(of_another_target(node)),
        }
    }

    fn location(&self, value: ValueId) -> Location {
        location(self.plan, self.constants, value)
    }
}

/// Whether a step has the scratch that its kernels need.
fn has_scratch(step: &PlannedStep, needed: Scratch) -> bool {
    step.scratch.local.is_multiple_of(ALIGNMENT)
        && step.scratch.kernel.is_multiple_of(ALIGNMENT)
        && step.scratch.kernel >= needed.worker
        && step.shared_scratch >= needed.shared
}

/// Where the memory of a value in the arena ends; 0 for other values.
pub(crate) fn end_of(plan: &Plan, value: ValueId) -> usize {
    match plan.storage(value) {
        Storage::Arena(byte) => byte + aligned(plan.graph().ty(value).bytes()),
        _ => 0,
    }
}

impl Bound {
    /// The nodes of a group, which run by rows.
    pub(crate) fn row_nodes(&mut self) -> Option<&mut Vec<RowNode>> {
        match &mut self.body {
            StepBody::Group(group) => Some(&mut group.nodes),
            StepBody::Whole(_) | StepBody::Scan(_) => None,
        }
    }

    /// The node of a step that runs by itself.
    pub(crate) fn whole(&mut self) -> Option<&mut Whole> {
        match &mut self.body {
            StepBody::Group(_) | StepBody::Scan(_) => None,
            StepBody::Whole(whole) => Some(whole),
        }
    }

    /// Runs the step.
    pub(crate) fn run(&self, pool: &Pool, context: &Context<'_>) {
        let arena = Address(context.bases.arena);
        let local = |worker: usize| arena.get().wrapping_add(self.scratch.local_at(worker));
        let kernel = |worker: usize| arena.get().wrapping_add(self.scratch.kernel_at(worker));
        let shared = Address(context.bases.arena.wrapping_add(self.shared_offset));
        match &self.body {
            StepBody::Group(group) => {
                let scratch = GroupScratch {
                    local: &local,
                    kernel: &kernel,
                    shared: shared.get(),
                };
                group.run(pool, context, scratch);
            }
            StepBody::Whole(whole) => {
                whole.run(pool, context, kernel, shared);
            }
            StepBody::Scan(scan) => scan.run(pool, context, shared.get()),
        }
    }
}

impl BodyStep for Bound {
    fn run(&self, pool: &Pool, context: &Context<'_>) {
        Bound::run(self, pool, context);
    }

    fn tasks(&self, threads: usize) -> Option<usize> {
        Bound::tasks(self, threads)
    }
}

impl Whole {
    /// Packs an input from its memory to other memory, and reads it packed from now on.
    pub(crate) fn freeze(&mut self, pool: &Pool, fixed: FixedInput, from: *mut u8, to: *mut u8) {
        let mut inputs = vec![Input::NONE; self.inputs.len()];
        let reads = std::mem::replace(&mut self.inputs[fixed.input].1, Reads::Packed);
        inputs[fixed.input] = Input::new(from, reads);
        let (inputs, to) = (Shared(&inputs), Address(to));
        pool.run(fixed.pack.tasks, &|task, _| {
            let work = Work {
                inputs: inputs.get(),
                outputs: &[],
                scratch: std::ptr::null_mut(),
                shared: to.get(),
                index_errors: &IndexErrors::default(),
                clock: &Clock::default(),
            };
            (fixed.pack.run)(&work, task);
        });
        self.rounds = fixed.rounds;
    }

    fn run(&self, pool: &Pool, context: &Context<'_>, scratch: impl Fn(usize) -> *mut u8 + Sync, shared: Address) {
        let at = |l: &Location| context.bases.at(*l, std::ptr::null_mut());
        let all_inputs = self
            .inputs
            .iter()
            .map(|(location, reads)| Input::new(at(location), *reads));
        let all_outputs = self.outputs.iter().map(at);
        let mut few = ([Input::NONE; MAX_OPERANDS], [std::ptr::null_mut(); MAX_OPERANDS]);
        let many: (Vec<Input>, Vec<*mut u8>);
        let (inputs, outputs) = if self.inputs.len().max(self.outputs.len()) <= MAX_OPERANDS {
            few.0.iter_mut().zip(all_inputs).for_each(|(to, from)| *to = from);
            few.1.iter_mut().zip(all_outputs).for_each(|(to, from)| *to = from);
            (&few.0[..self.inputs.len()], &few.1[..self.outputs.len()])
        } else {
            many = (all_inputs.collect(), all_outputs.collect());
            (&many.0[..], &many.1[..])
        };
        let (inputs, outputs) = (Shared(inputs), Shared(outputs));
        for round in &self.rounds {
            pool.run(round.tasks, &|task, worker| {
                let work = Work {
                    inputs: inputs.get(),
                    outputs: outputs.get(),
                    scratch: scratch(worker),
                    shared: shared.get(),
                    index_errors: context.index_errors,
                    clock: context.clock,
                };
                context.clock.time(self.timed, || (round.run)(&work, task));
            });
        }
    }
}

/// Operands that the tasks of a step share.
#[derive(Clone, Copy)]
struct Shared<'a, T>(&'a [T]);

// SAFETY: the addresses are only dereferenced by kernels, on the parts of memory that belong to their task.
unsafe impl<T> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    fn get(&self) -> &'a [T] {
        self.0
    }
}

/// An address that the tasks of a step share.
#[derive(Clone, Copy)]
struct Address(*mut u8);

// SAFETY: as for `Shared`.
unsafe impl Sync for Address {}

impl Address {
    fn get(self) -> *mut u8 {
        self.0
    }
}
