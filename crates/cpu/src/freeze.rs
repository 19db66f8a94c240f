//! States that never change: a state that only one product reads is packed once, and the packed elements replace the
//! uploaded elements. A product of a packed state also adds the row that the next node would add to its result.

use lessen_base::Result;
use lessen_compile::{Plan, Storage};
use lessen_device::ProgramId;
use lessen_graph::ops::{Binary, BinaryKind};
use lessen_graph::{Layout, NodeId, ValueId};

use crate::arena::Arena;
use crate::bind::Bound;
use crate::device::Device;
use crate::exec::Executable;
use crate::group::{RowNode, RowOutput};
use crate::index_errors::IndexErrors;
use crate::kernels::kernel::{Arg, MAX_OPERANDS, Run};
use crate::operand::{Bases, RowOperand};
use crate::store::Store;

impl Executable {
    /// Packs the states that only one kernel of this `program` reads, if the kernel has a loop for packed elements, one
    /// after another: a state's elements lie in memory twice meanwhile.
    ///
    /// # Errors
    /// Memory that the system does not give; the program runs with the states that are packed until then.
    pub(crate) fn freeze(&mut self, program: ProgramId, device: &Device, store: &mut Store) -> Result<()> {
        let uses = uses_of_states(&self.plan);
        for whole in self.bound.iter_mut().filter_map(Bound::whole) {
            let Some(fixed) = whole.fixed.take().map(|fixed| fixed()) else {
                continue;
            };
            let Some(state) = frozen_state(&self.plan, &uses, whole.timed.node, fixed.input) else {
                continue;
            };
            let name = &self.plan.graph().inputs[state].name;
            let Some(from) = store.state(name).filter(|from| from.packed_for.is_none()) else {
                continue;
            };
            let memory = Arena::new(fixed.bytes)?;
            whole.freeze(&device.pool, fixed, from.memory.ptr(), memory.ptr());
            store.pack(name, program, memory);
            self.packed[state] = Some(program);
        }
        for node in self.bound.iter_mut().filter_map(Bound::row_nodes).flatten() {
            let Some(Packable { state, bytes, inputs }) = packable(&self.plan, &uses, node) else {
                continue;
            };
            let name = &self.plan.graph().inputs[state].name;
            let Some(from) = store.state(name).filter(|from| from.packed_for.is_none()) else {
                continue;
            };
            let memory = Arena::new(bytes)?;
            pack(device, node, state, from.memory.ptr(), memory.ptr());
            store.pack(name, program, memory);
            self.packed[state] = Some(program);
            node.inputs = inputs;
            node.kernel.freeze();
        }
        let uses = uses_of_values(&self.plan);
        for nodes in self.bound.iter_mut().filter_map(Bound::row_nodes) {
            for i in (1..nodes.len()).rev() {
                if let Some(row) = added_row(&self.plan, &uses, &nodes[i - 1], &nodes[i]) {
                    let sum = nodes.remove(i);
                    nodes[i - 1].inputs.push(row);
                    nodes[i - 1].outputs = sum.outputs;
                }
            }
        }
        Ok(())
    }
}

/// How many operands, outputs and assignments lie in each of the graph's inputs.
fn uses_of_states(plan: &Plan) -> Vec<usize> {
    let graph = plan.graph();
    let mut uses = vec![0; graph.inputs.len()];
    let mut count = |value: ValueId| {
        if let Storage::State(state) = plan.storage(plan.place(value).base) {
            uses[state] += 1;
        }
    };
    for step in plan.steps() {
        for node in step.nodes.iter().map(|id| &graph.nodes[id.index()]) {
            node.inputs.iter().chain(&node.outputs).for_each(|&v| count(v));
        }
    }
    graph.outputs.iter().for_each(|output| count(output.value));
    for assign in &graph.assigns {
        [assign.target, assign.value].into_iter().for_each(&mut count);
    }
    uses
}

/// How many nodes and outputs read each value, views of it included.
fn uses_of_values(plan: &Plan) -> Vec<usize> {
    let graph = plan.graph();
    let mut uses = vec![0; graph.values.len()];
    let by_nodes = plan.steps().iter().flat_map(|step| &step.nodes);
    let by_nodes = by_nodes.flat_map(|id| graph.nodes[id.index()].inputs.iter().copied());
    let outputs = graph.outputs.iter().map(|output| output.value);
    let assigned = graph.assigns.iter().map(|assign| assign.value);
    by_nodes
        .chain(outputs)
        .chain(assigned)
        .for_each(|value| uses[plan.place(value).base.index()] += 1);
    uses
}

/// The row that a node adds to each row of the frozen product before it, if nothing else reads the product and the
/// product can be written where the sum lies.
fn added_row(plan: &Plan, uses: &[usize], product: &RowNode, sum: &RowNode) -> Option<RowOperand> {
    let node = |node: &RowNode| &plan.graph().nodes[node.timed.node.index()];
    let is_sum = node(sum).op.downcast_ref::<Binary>()?.kind == BinaryKind::Add;
    let value = node(product).outputs[0];
    let of_product = node(sum).inputs.iter().position(|input| *input == value)?;
    let ([RowOutput::Rows(from)], [RowOutput::Rows(to)]) = (&product.outputs[..], &sum.outputs[..]) else {
        return None;
    };
    let is_free = is_sum && product.kernel.is_frozen && uses[value.index()] == 1;
    // The sum may lie where the product's rows do, which end before it begins.
    let is_apart = from == to || product.inputs.iter().all(|input| input.is_apart(to));
    let row = sum.inputs[1 - of_product].as_one_row()?;
    let fits = to.has_dense_rows() && row.columns() == from.columns() && to.columns() == from.columns();
    (is_free && is_apart && fits).then_some(row)
}

/// A state that a node can read packed.
struct Packable {
    state: usize,
    /// Bytes of the packed state.
    bytes: usize,
    /// The inputs of the node as the kernel reads them then.
    inputs: Vec<RowOperand>,
}

/// The state that a node can read packed, if there is one.
fn packable(plan: &Plan, uses: &[usize], node: &RowNode) -> Option<Packable> {
    let fixed = node.kernel.fixed.as_ref()?;
    let are_runs = node.outputs.iter().all(|output| match output {
        RowOutput::Rows(operand) => operand.has_dense_rows(),
        RowOutput::Sum(_) => false,
    });
    let inputs = node.inputs.iter().enumerate();
    let inputs = inputs.map(|(i, operand)| {
        if i == fixed.input {
            Some(operand.packed())
        } else {
            operand.of_runs()
        }
    });
    let inputs = inputs.collect::<Option<_>>()?;
    let state = frozen_state(plan, uses, node.timed.node, fixed.input)?;
    are_runs.then_some(Packable {
        state,
        bytes: fixed.bytes,
        inputs,
    })
}

/// The state that an input of a node is all of, each element once, if nothing else reads it.
fn frozen_state(plan: &Plan, uses: &[usize], node: NodeId, input: usize) -> Option<usize> {
    let value = plan.graph().nodes[node.index()].inputs[input];
    let place = plan.place(value);
    let Storage::State(state) = plan.storage(place.base) else {
        return None;
    };
    let elements = plan.graph().ty(place.base).numel();
    (is_all_of(elements, &plan.graph().ty(value).shape, &place.layout) && uses[state] == 1).then_some(state)
}

/// Whether an array of this shape and layout has each of the elements of its base once.
fn is_all_of(elements: usize, shape: &[usize], layout: &Layout) -> bool {
    let axes = shape
        .iter()
        .zip(&layout.strides)
        .map(|(&extent, &stride)| (stride, extent));
    let mut axes: Vec<(usize, usize)> = axes.filter(|axis| axis.1 != 1).collect();
    axes.sort_unstable();
    let within = axes.iter().try_fold(1usize, |within, &(stride, extent)| {
        (stride == within).then_some(within.checked_mul(extent)?)
    });
    within == Some(elements)
}

/// Packs the state of a node.
fn pack(device: &Device, node: &RowNode, state: usize, from: *mut u8, to: *mut u8) {
    let Some(fixed) = &node.kernel.fixed else {
        return;
    };
    let mut states = vec![std::ptr::null_mut(); state + 1];
    states[state] = from;
    let bases = Bases {
        arena: to,
        constants: std::ptr::null_mut(),
        states,
    };
    device.pool.run(fixed.pack.tasks, &|task, _| {
        let mut inputs = [Arg::NONE; MAX_OPERANDS];
        inputs[fixed.input] = node.inputs[fixed.input].arg(&bases, std::ptr::null_mut(), 0, 0);
        let run = Run {
            n: 0,
            first: 0,
            columns: (0, 0),
            inputs: &inputs[..node.inputs.len()],
            outputs: &[],
            scratch: std::ptr::null_mut(),
            shared: bases.arena,
            index_errors: &IndexErrors::default(),
        };
        (fixed.pack.run)(&run, task);
    });
}
