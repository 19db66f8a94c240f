//! Measuring: an operation by itself on the device's threads and in its arena.

use std::time::{Duration, Instant};

use lessen_base::{Result, SplitMix64};
use lessen_compile::{IndexSource, Operation, Options, Plan, plan_as_it_is};
use lessen_device::Time;
use lessen_graph::{DType, Graph, Type};

use super::sample::{Class, on_dense, with_results};
use crate::bind::Binder;
use crate::clock::Clock;
use crate::constants::Constants;
use crate::device::Device;
use crate::group::Context;
use crate::index_errors::IndexErrors;
use crate::operand::{Bases, location};

/// Runs of a sample: at least, at most, and the time after which there are no more.
const LEAST_RUNS: usize = 3;
const MOST_RUNS: usize = 20;
const RUNNING: Duration = Duration::from_millis(40);

/// Bytes that are written before an operation that runs by itself: they stand for the bytes that other steps leave in
/// caches.
const OTHERS: usize = 32 << 20;

/// The time of an operation; none where its samples take more than `memory` bytes, or cannot run. A step takes
/// `step_overhead` seconds besides its work.
pub(super) fn time(
    device: &mut Device,
    operation: &Operation,
    step_overhead: f64,
    memory: usize,
) -> Result<Option<Time>> {
    let Operation {
        op, inputs, outputs, ..
    } = operation;
    let class = Class::of(op.as_ref(), inputs, outputs);
    let counts = class.counts(inputs, outputs, device.threads());
    let cuts = counts
        .iter()
        .map(|&count| Some((count, class.cut(op.as_ref(), (inputs, outputs), count)?)));
    let cuts: Option<Vec<(usize, Vec<Type>)>> = cuts.collect();
    let all = class.count();
    let samples: Vec<(usize, Graph)> = match cuts.filter(|cuts| !cuts.is_empty()) {
        Some(cuts) => {
            let graphs = cuts.iter().map(|(count, inputs)| Ok((*count, on_dense(op, inputs)?)));
            graphs.collect::<Result<_>>()?
        }
        None => vec![(all, operation.graph.clone())],
    };
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (count, graph) in samples {
        let cold = if class == Class::Whole { OTHERS } else { 0 };
        let Some(seconds) = seconds(device, graph, (memory, cold))? else {
            return Ok(None);
        };
        points.push((count as f64, (seconds - step_overhead).max(0.0)));
    }
    Ok(Some(match (&class, &points[..]) {
        (Class::Whole | Class::FewRows, [(_, seconds), ..]) => Time {
            fixed: *seconds,
            each: 0.0,
        },
        (_, [(few, less), (many, more)]) => {
            let (few, less, many, more) = (*few, *less, *many, *more);
            let each = ((more - less) / (many - few)).clamp(0.5 * more / many, more / many);
            Time {
                fixed: (more - each * many).max(0.0),
                each,
            }
        }
        (_, [(count, seconds), ..]) => Time {
            fixed: 0.0,
            each: seconds / count,
        },
        (_, []) => return Ok(None),
    }))
}

/// Seconds of a run of a graph without states: the least of several; none where it takes more than `memory` bytes, or
/// nothing runs, or an index that was made up is not valid. Before each run `others` bytes of other memory are written,
/// as far as `memory` has room for them, so that operands are not in a cache.
pub(super) fn seconds(device: &mut Device, graph: Graph, (memory, others): (usize, usize)) -> Result<Option<f64>> {
    let graph = with_results(graph);
    let plan = plan_as_it_is(&graph, &Options::default(), &device.target());
    if plan.peak_bytes() - plan.result_bytes() > memory || plan.steps().is_empty() || !plan.reference_nodes().is_empty()
    {
        return Ok(None);
    }
    let constants = Constants::of(&plan)?;
    let bound = Binder {
        plan: &plan,
        constants: &constants.offsets,
    }
    .bind()?;
    let others = others.min(memory - (plan.peak_bytes() - plan.result_bytes()));
    device.arena.grow(plan.arena_bytes() + others)?;
    let bases = Bases {
        arena: device.arena.ptr(),
        constants: constants.memory.ptr(),
        states: vec![std::ptr::null_mut(); graph.inputs.len()],
    };
    fill(&plan, &constants.offsets, &bases);
    let (index_errors, clock) = (IndexErrors::default(), Clock::default());
    let context = Context {
        bases: &bases,
        index_errors: &index_errors,
        clock: &clock,
    };
    let mut best = f64::INFINITY;
    let begun = Instant::now();
    for run in 0..=MOST_RUNS {
        // SAFETY: the arena has `others` bytes after the bytes of the plan, and nothing else uses it now.
        unsafe { bases.arena.add(plan.arena_bytes()).write_bytes(run as u8, others) };
        let start = Instant::now();
        for step in &bound {
            step.run(&device.pool, &context);
        }
        let seconds = start.elapsed().as_secs_f64();
        if run == 0 {
            let wrong = (0..bound.len()).any(|step| index_errors.take(&plan, step).is_some());
            if wrong {
                return Ok(None);
            }
            continue;
        }
        best = best.min(seconds);
        if run >= LEAST_RUNS && begun.elapsed() > RUNNING {
            break;
        }
    }
    Ok(Some(best))
}

/// Fills the inputs of a plan: floats from 1/2 to 3/2, truth values that are true, indices that are valid, other whole
/// numbers that rise from 0 on.
fn fill(plan: &Plan, constants: &[usize], bases: &Bases) {
    let mut random = SplitMix64::new(1);
    for (i, input) in plan.graph().inputs.iter().enumerate() {
        let ty = plan.graph().ty(input.value);
        let limit = plan
            .indices()
            .iter()
            .find(|index| index.source == IndexSource::Input(i));
        let limit = limit.map(|index| index.limit as u64);
        let at = bases.at(location(plan, constants, input.value), std::ptr::null_mut());
        let n = ty.numel();
        // SAFETY: the plan gives the input memory of its type, aligned, and nothing else uses it now.
        unsafe {
            match ty.dtype {
                DType::F32 => each(at, n, |_| 0.5 + random.below(1 << 20) as f32 / (1 << 20) as f32),
                DType::F64 => each(at, n, |_| 0.5 + random.below(1 << 20) as f64 / (1 << 20) as f64),
                DType::BF16 => each(at, n, |_| 0x3f00u16 + random.below(0xc0) as u16),
                DType::I32 => each(at, n, |i| match limit {
                    Some(limit) => random.below(limit.max(1)) as i32,
                    None => i as i32,
                }),
                DType::U32 => each(at, n, |_| random.below(1 << 32) as u32),
                _ => at.write_bytes(1, ty.bytes()),
            }
        }
    }
}

/// Writes `n` elements.
///
/// # Safety
/// There is memory for them at `to`, aligned for their type, that nothing else uses.
unsafe fn each<T>(to: *mut u8, n: usize, mut of: impl FnMut(usize) -> T) {
    let to = to.cast::<T>();
    for i in 0..n {
        // SAFETY: `i` is below `n`.
        unsafe { to.add(i).write(of(i)) };
    }
}
