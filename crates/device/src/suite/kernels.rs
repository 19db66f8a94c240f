//! Every standard operation by itself, on every dtype that its type rule admits.

use lessen_compile::Options;
use lessen_graph::{Array, DType, Graph, Trace, Type, evaluate, print};

use super::random::Random;
use super::runner::{Arrays, close, load, text};
use super::sample::Sample;
use super::samples::samples;
use super::{Check, Found, NewDevice};
use crate::backend::Backend;

pub(super) const CHECKS: &[Check] = &[Check {
    name: "every standard operation computes what the reference evaluator does",
    run: every_operation,
}];

/// Samples in each of these dtypes that their type rule admits, with the types of their inputs.
pub(super) fn admitted(samples: impl IntoIterator<Item = Sample>, dtypes: &[DType]) -> Vec<(Sample, Vec<Type>)> {
    let mut all = Vec::new();
    for sample in samples {
        let mut tried = Vec::new();
        for &dtype in dtypes {
            let inputs = sample.inputs.iter();
            let inputs: Vec<Type> = inputs.map(|(own, s)| Type::new(own.unwrap_or(dtype), s)).collect();
            if sample.op.infer(&inputs).is_ok() && !tried.contains(&inputs) {
                tried.push(inputs);
            }
        }
        all.extend(tried.into_iter().map(|inputs| (sample.clone(), inputs)));
    }
    all
}

/// A graph of one operation over inputs `x0`, `x1` and so on.
fn graph(sample: &Sample, inputs: &[Type]) -> Graph {
    let trace = Trace::new();
    let names: Vec<String> = (0..inputs.len()).map(|i| format!("x{i}")).collect();
    let inputs = names.iter().zip(inputs);
    let inputs: Vec<_> = inputs
        .map(|(name, ty)| trace.input(name, ty.dtype, &ty.shape))
        .collect();
    for (k, y) in trace.apply_shared(sample.op.clone(), &inputs).into_iter().enumerate() {
        trace.output(&format!("y{k}"), y);
    }
    trace.finish()
}

fn every_operation(new: NewDevice<'_>) -> Found {
    let mut random = Random::new(11);
    let mut device = new(2);
    let dtypes = [DType::F32, DType::I32, DType::U32, DType::U8, DType::Bool];
    let mut admitted = admitted(samples(), &dtypes).into_iter();
    admitted.try_for_each(|(sample, types)| on_dense_inputs(device.as_mut(), &mut random, &sample, &types))
}

/// The least number of valid indices that an operation on these types reads, at most 3.
pub(super) fn least_indices(sample: &Sample, types: &[Type]) -> usize {
    let limit = sample.op.index_input(types).map_or(3, |index| index.limit);
    limit.clamp(1, 3)
}

/// Runs one operation on random inputs without gaps.
pub(super) fn on_dense_inputs(device: &mut dyn Backend, random: &mut Random, sample: &Sample, types: &[Type]) -> Found {
    let graph = graph(sample, types);
    let limit = least_indices(sample, types);
    let mut inputs = Arrays::new();
    for (i, ty) in types.iter().enumerate() {
        let value = |_: &[usize]| match ty.dtype {
            DType::F32 if i >= 2 => f64::from(random.unit_f32().abs()),
            DType::F32 => f64::from(random.unit_f32()),
            DType::Bool => random.below(2) as f64,
            // Valid indices of every sample, too.
            _ => random.below(limit) as f64,
        };
        inputs.insert(format!("x{i}"), Array::from_fn(ty.clone(), value));
    }
    let expected = evaluate(&graph, &inputs).map_err(text)?;
    let loaded = load(device, &graph, &Options::default(), &inputs)?;
    loaded.run(device, &inputs)?;
    let found = loaded.results(device)?;
    for (name, array) in &expected {
        // A sum of `n` numbers of about 1 is as large as their root, and so is its error.
        let elements = types.first().map_or(0, Type::numel);
        let n = elements as f64 / array.data.len().max(1) as f64;
        let tolerance = (2e-5, 2e-5 * n.sqrt().max(1.0));
        close(name, &found[name], array, tolerance).map_err(|wrong| format!("{wrong}, in\n{}", print(&graph)))?;
    }
    device.remove_model(loaded.model);
    Ok(())
}
