//! Every standard operation on views: permuted, apart, cut and repeated arrays, which a device reads where they lie or
//! copies first.
//!
//! Each view is one of a state, which has memory of its own, so that what is read beyond it is another's.

use std::collections::{BTreeMap, BTreeSet};

use lessen_compile::{Options, places};
use lessen_graph::{Array, DType, Graph, Tensor, Trace, TraceRef, Type, evaluate, print};

use super::kernels::{admitted, least_indices};
use super::random::Random;
use super::runner::{Arrays, close, ensure, load, text};
use super::sample::Sample;
use super::samples::samples;
use super::view_samples::view_samples;
use super::{Check, Found, NewDevice};
use crate::backend::Backend;

pub(super) const CHECKS: &[Check] = &[Check {
    name: "every standard operation reads views as the reference evaluator does",
    run: every_operation,
}];

/// How the elements of an input lie in its base.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum View {
    Dense,
    /// All axes in reverse order.
    Reversed,
    /// The last axis before the others.
    LastFirst,
    /// The first two axes exchanged.
    FirstSwapped,
    /// Every second element.
    Apart,
    /// Every second row of the first axis.
    RowsApart,
    /// A range of each axis.
    Cut,
    /// The same along the first axis, along the last one, or everywhere.
    FirstRepeated,
    LastRepeated,
    AllRepeated,
    /// Every second element of a range of each axis, all axes in reverse order.
    Mixed,
}

const VIEWS: [View; 10] = [
    View::Reversed,
    View::LastFirst,
    View::FirstSwapped,
    View::Apart,
    View::RowsApart,
    View::Cut,
    View::FirstRepeated,
    View::LastRepeated,
    View::AllRepeated,
    View::Mixed,
];

impl View {
    /// An array of this type that lies so in a state.
    fn of(self, trace: TraceRef, name: &str, ty: &Type) -> Tensor {
        let shape = &ty.shape[..];
        let state = |shape: &[usize]| trace.state(name, ty.dtype, shape);
        let reversed = || shape.iter().rev().copied().collect::<Vec<_>>();
        let back: Vec<usize> = (0..shape.len()).rev().collect();
        let repeated = |along: &dyn Fn(usize) -> bool| {
            let extents = shape.iter().enumerate();
            let base: Vec<usize> = extents.map(|(axis, &n)| if along(axis) { 1 } else { n }).collect();
            state(&base).broadcast_to(shape)
        };
        let second = |x: Tensor, axis: usize, shape: &[usize]| x.slice(axis as isize, 1, 1).reshape(shape);
        match self {
            View::Reversed => state(&reversed()).permute(&back),
            View::LastFirst if shape.len() > 2 => {
                let last = shape.len() - 1;
                let axes: Vec<usize> = (1..=last).chain([0]).collect();
                state(&[&shape[last..], &shape[..last]].concat()).permute(&axes)
            }
            View::FirstSwapped if shape.len() > 2 => {
                let swapped = [&[shape[1], shape[0]][..], &shape[2..]].concat();
                state(&swapped).transpose(0, 1)
            }
            View::Apart => second(state(&[shape, &[2]].concat()), shape.len(), shape),
            View::RowsApart if !shape.is_empty() => second(state(&[&shape[..1], &[2], &shape[1..]].concat()), 1, shape),
            View::Cut => {
                let wider: Vec<usize> = shape.iter().map(|n| n + 2).collect();
                let axes = shape.iter().enumerate();
                axes.fold(state(&wider), |x, (axis, &n)| x.slice(axis as isize, 1, n))
            }
            View::FirstRepeated => repeated(&|axis| axis == 0),
            View::LastRepeated => repeated(&|axis| axis + 1 == shape.len()),
            View::AllRepeated => repeated(&|_| true),
            View::Mixed => {
                let wider: Vec<usize> = shape.iter().rev().map(|n| n + 1).chain([2]).collect();
                let x = second(state(&wider), shape.len(), &wider[..shape.len()]);
                let axes = reversed().into_iter().enumerate();
                axes.fold(x, |x, (axis, n)| x.slice(axis as isize, 1, n)).permute(&back)
            }
            View::Dense | View::LastFirst | View::FirstSwapped | View::RowsApart => state(shape),
        }
    }
}

/// A graph of one operation over views of the states `x0`, `x1` and so on; none where all inputs are dense.
fn graph(sample: &Sample, types: &[Type], views: &[View]) -> Option<Graph> {
    let trace = Trace::new();
    let inputs = types.iter().zip(views).enumerate();
    let inputs: Vec<_> = inputs
        .map(|(i, (ty, view))| view.of(*trace, &format!("x{i}"), ty))
        .collect();
    for (k, y) in trace.apply_shared(sample.op.clone(), &inputs).into_iter().enumerate() {
        trace.output(&format!("y{k}"), y);
    }
    let graph = trace.finish();
    let places = places(&graph);
    let node = graph.nodes.last()?;
    let are_dense = node
        .inputs
        .iter()
        .all(|&v| places[v.index()].layout.is_dense(&graph.ty(v).shape));
    (!are_dense).then_some(graph)
}

/// The states of a graph. Floats are not zero. Those of the first input have few bits, so that sums of equal ones are
/// not rounded: where a deviation is zero, it is exactly zero. Those of others have many, so that no product, sum or
/// mean of several inputs lies at a kink, whose side would be one of rounding.
fn states(random: &mut Random, sample: &Sample, types: &[Type], graph: &Graph) -> Arrays {
    let limit = least_indices(sample, types);
    let mut states = Arrays::new();
    for (i, (input, (own, _))) in graph.inputs.iter().zip(&sample.inputs).enumerate() {
        let ty = graph.ty(input.value).clone();
        let value = |_: &[usize]| match (ty.dtype, own) {
            (DType::Bool, _) => random.below(2) as f64,
            (DType::U8, Some(_)) => random.below(1 << 8) as f64,
            (DType::U32, Some(_)) => random.below(1 << 32) as f64,
            (dtype, _) if dtype.is_float() => {
                let bits = if i == 0 { 7 } else { 20 };
                let size = dtype.round((2 * random.below(1 << bits) + 1) as f64 / f64::from(1 << (bits + 1)));
                if i >= 2 || random.chance(50) { size } else { -size }
            }
            // Valid indices of every sample, too, and sums that all integers hold.
            _ => random.below(limit) as f64,
        };
        states.insert(input.name.clone(), Array::from_fn(ty.clone(), value));
    }
    states
}

/// How far from the reference evaluator's a result may be: relative to the largest element, and absolute. Integers of
/// integers are exact. Sums of `f32` are rounded, and so are numbers that become `bf16` or codes of 8 bits, of which
/// one that lies between two may become the other one.
fn tolerance(dtype: DType, of_floats: bool, terms: f64) -> (f64, f64) {
    match dtype {
        DType::U8 if of_floats => (0.0, 1.0),
        DType::BF16 => (1.0 / 128.0, 2e-5 * terms.sqrt().max(1.0)),
        dtype if dtype.is_float() => (2e-5, 2e-5 * terms.sqrt().max(1.0)),
        _ => (0.0, 0.0),
    }
}

/// Runs a graph as it is, and with its states packed where the device packs them.
fn compare(device: &mut dyn Backend, graph: &Graph, states: &Arrays) -> Found {
    let expected = evaluate(graph, states).map_err(text)?;
    let loaded = load(device, graph, &Options::default(), states)?;
    let elements = graph.nodes.last().map(|node| graph.ty(node.inputs[0]).numel());
    let of_floats = graph.inputs.iter().any(|input| graph.ty(input.value).dtype.is_float());
    for is_frozen in [false, true] {
        if is_frozen {
            device.freeze(loaded.program).map_err(text)?;
        }
        loaded.run(device, states)?;
        for (name, array) in &expected {
            let found = device.output(loaded.program, name);
            let found = found.ok_or_else(|| format!("there is no result `{name}`"))?;
            let terms = elements.unwrap_or(0) as f64 / array.data.len().max(1) as f64;
            let near = close(name, &found, array, tolerance(array.ty.dtype, of_floats, terms));
            near.map_err(|wrong| format!("{wrong}; frozen: {is_frozen}"))?;
        }
    }
    device.remove_model(loaded.model);
    Ok(())
}

/// Runs one operation on random inputs: all in each view, each in a view of its own. Adds the views that were tried.
pub(super) fn in_views(
    devices: &mut [Box<dyn Backend>],
    random: &mut Random,
    sample: &Sample,
    types: &[Type],
    seen: &mut BTreeSet<View>,
) -> Found {
    let mut choices: Vec<Vec<View>> = VIEWS.iter().map(|&view| vec![view; types.len()]).collect();
    for input in 0..types.len() {
        let mut one = vec![View::Dense; types.len()];
        one[input] = random.pick(&VIEWS);
        choices.push(one);
    }
    choices.push(types.iter().map(|_| random.pick(&VIEWS)).collect());
    for views in choices {
        let Some(graph) = graph(sample, types, &views) else {
            continue;
        };
        seen.extend(views.iter().copied().filter(|&view| view != View::Dense));
        let states = states(random, sample, types, &graph);
        let device = &mut devices[random.below(3)];
        compare(device.as_mut(), &graph, &states)
            .map_err(|wrong| format!("{wrong}; views {views:?}, in\n{}", print(&graph)))?;
    }
    Ok(())
}

fn every_operation(new: NewDevice<'_>) -> Found {
    let mut random = Random::new(57);
    let mut devices = [1, 2, 3].map(new);
    let mut seen: BTreeMap<&str, BTreeSet<View>> = BTreeMap::new();
    let dtypes = [DType::F32, DType::BF16, DType::I32, DType::U32, DType::U8, DType::Bool];
    let refused = |sample: &Sample| admitted([sample.clone()], &dtypes).is_empty();
    let refused = view_samples().into_iter().find(refused);
    ensure(refused.is_none(), || {
        format!("no type rule admits {:?}", refused.map(|sample| sample.op))
    })?;
    // Samples with kernels of rows come last, since each sample goes on with the random numbers of the one before.
    let mut all: Vec<Sample> = samples().into_iter().chain(view_samples()).collect();
    all.sort_by_key(|sample| sample.op.row_kernel().is_some());
    for (sample, types) in admitted(all, &dtypes) {
        if types.is_empty() {
            continue;
        }
        let seen = seen.entry(sample.op.name()).or_default();
        in_views(&mut devices, &mut random, &sample, &types, seen)?;
    }
    // An input of one axis lies apart or is repeated; all other views are of several axes.
    let few = seen.iter().find(|(_, views)| views.len() < 4);
    ensure(few.is_none(), || format!("too few views are tried: {few:?}"))
}
