//! Reads `bf16` in place: a value that is widened from `bf16` is not kept or written as `f32`, but widened in each plan
//! step that reads it, row block by row block.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_graph::{DType, Graph, Node, NodeId, Role, RowWise, ValueId, ops};

use crate::place::{Place, places};
use crate::schedule::Step;
use crate::target::{KernelKind, Target};
use lessen_rewrite::{Rewriter, without_dead_code};

/// The value that a value is widened from: the input of a cast from `bf16` to `f32`.
pub(crate) fn widened_from(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let node = &graph.nodes[graph.producer(value)?.index()];
    let from = is_cast(graph, node).then(|| node.inputs[0])?;
    let dtypes = (graph.ty(from).dtype, graph.ty(value).dtype);
    (dtypes == (DType::BF16, DType::F32)).then_some(from)
}

/// Whether a node's result is its input in another dtype.
fn is_cast(graph: &Graph, node: &Node) -> bool {
    let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
    node.op.is_cast() && graph.ask(node, &inputs, &outputs).is_cast()
}

/// The nodes that lead from a base to a view of it, in order.
pub(super) fn views(graph: &Graph, base: ValueId, view: ValueId) -> Vec<NodeId> {
    let (mut nodes, mut value) = (Vec::new(), view);
    while value != base {
        let producer = graph.producer(value).expect("a view has a node");
        nodes.push(producer);
        value = graph.nodes[producer.index()].inputs[0];
    }
    nodes.reverse();
    nodes
}

/// Applies views to another value, in the scope and phase of a node.
pub(super) fn view_again(
    graph: &Graph,
    rewriter: &mut Rewriter<'_>,
    nodes: &[NodeId],
    value: ValueId,
    at: &Node,
) -> ValueId {
    nodes.iter().fold(value, |value, id| {
        let node = &graph.nodes[id.index()];
        rewriter.push(node.op.clone(), &[value], at.phase, &at.scope)[0]
    })
}

/// Makes operations read `bf16` where they give the same results for it and the device has a kernel for it. Values that
/// an operation copies are widened after it.
pub fn read_narrow(graph: &Graph, target: &dyn Target) -> Graph {
    if !has_bf16(graph) {
        return graph.clone();
    }
    let places = places(graph);
    let mut rewriter = Rewriter::new(graph);
    for node in &graph.nodes {
        let mut inputs: Vec<ValueId> = node.inputs.iter().map(|&input| rewriter.get(input)).collect();
        let (mut types, mut outputs) = (graph.input_types(node), graph.output_types(node));
        let mut widened = false;
        for (i, &input) in node.inputs.iter().enumerate() {
            let base = places[input.index()].base;
            let Some(narrow) = widened_from(graph, base) else {
                continue;
            };
            let copies = graph.ask(node, &types, &outputs).copies() == Some(i);
            let wide = std::mem::replace(&mut types[i].dtype, DType::BF16);
            let mut found = outputs.clone();
            if copies {
                found.iter_mut().for_each(|ty| ty.dtype = DType::BF16);
            }
            let is_one = node.op.infer_checked(&types).is_ok_and(|inferred| inferred == found);
            if is_one && target.lower(node.op.as_ref(), &types, &found).kind != KernelKind::Reference {
                let from = rewriter.get(narrow);
                inputs[i] = view_again(graph, &mut rewriter, &views(graph, base, input), from, node);
                widened |= found != outputs;
                outputs = found;
            } else {
                types[i].dtype = wide;
            }
        }
        let mut new = rewriter.push_copy(node, &inputs, node.phase);
        if widened {
            for value in &mut new {
                let cast = Arc::new(ops::Cast { dtype: DType::F32 });
                *value = rewriter.push(cast, &[*value], node.phase, &node.scope)[0];
            }
        }
        for (&old, new) in node.outputs.iter().zip(new) {
            rewriter.set(old, new);
        }
    }
    rewriter.finish()
}

fn has_bf16(graph: &Graph) -> bool {
    graph.values.iter().any(|value| value.ty.dtype == DType::BF16)
}

/// Widens values in each row group that reads them, where only row groups do; none where nothing changes.
pub(crate) fn widen_where_read(graph: &Graph, row_wise: &[RowWise], steps: &[Step]) -> Option<Graph> {
    if !has_bf16(graph) {
        return None;
    }
    let places = places(graph);
    let mut step_of = vec![usize::MAX; graph.nodes.len()];
    for (s, step) in steps.iter().enumerate() {
        for node in &step.nodes {
            step_of[node.index()] = s;
        }
    }
    let widened = widened_values(graph, row_wise, steps, &places, &step_of);
    if widened.iter().all(Option::is_none) {
        return None;
    }
    let mut rewriter = Rewriter::new(graph);
    let mut made: HashMap<(ValueId, usize), ValueId> = HashMap::new();
    for (n, node) in graph.nodes.iter().enumerate() {
        rewriter.stage = node.stage;
        let mut inputs: Vec<ValueId> = node.inputs.iter().map(|&input| rewriter.get(input)).collect();
        for (i, &input) in node.inputs.iter().enumerate() {
            let (base, step) = (places[input.index()].base, step_of[n]);
            let Some(narrow) = widened[base.index()].filter(|_| step != usize::MAX) else {
                continue;
            };
            let cast = graph.producer(base).expect("the cast").index();
            if step_of[cast] == step {
                continue;
            }
            let wide = *made.entry((base, step)).or_insert_with(|| {
                let (op, from) = (graph.nodes[cast].op.clone(), rewriter.get(narrow));
                rewriter.push(op, &[from], node.phase, &node.scope)[0]
            });
            inputs[i] = view_again(graph, &mut rewriter, &views(graph, base, input), wide, node);
        }
        rewriter.copy_with(node, &inputs, node.phase);
    }
    Some(without_dead_code(rewriter.finish()))
}

/// For each widened value that several steps read, all of them row by row, the value that it is widened from.
fn widened_values(
    graph: &Graph,
    row_wise: &[RowWise],
    steps: &[Step],
    places: &[Place],
    step_of: &[usize],
) -> Vec<Option<ValueId>> {
    let mut widened: Vec<Option<ValueId>> = (0..graph.values.len())
        .map(|v| widened_from(graph, ValueId(v as u32)))
        .collect();
    let mut elsewhere = vec![false; graph.values.len()];
    for (n, node) in graph.nodes.iter().enumerate() {
        for (i, &input) in node.inputs.iter().enumerate() {
            let base = places[input.index()].base.index();
            if widened[base].is_none() || step_of[n] == usize::MAX {
                continue;
            }
            let own = graph.producer(ValueId(base as u32)).expect("the cast").index();
            if step_of[own] == step_of[n] {
                continue;
            }
            elsewhere[base] = true;
            let by_rows = match &row_wise[n] {
                RowWise::No => false,
                RowWise::Elementwise => true,
                RowWise::Rows { inputs, .. } => inputs[i] == Role::Rows,
            };
            if !by_rows || steps[step_of[n]].rows.is_none() {
                widened[base] = None;
            }
        }
    }
    let kept = (graph.outputs.iter().map(|o| o.value)).chain(graph.assigns.iter().map(|a| a.value));
    for value in kept {
        widened[places[value.index()].base.index()] = None;
    }
    for (value, elsewhere) in widened.iter_mut().zip(elsewhere) {
        *value = value.filter(|_| elsewhere);
    }
    widened
}
