//! Every standard operation on arrays without elements: whatever extent the type rule lets be 0, the operation loads,
//! runs and gives the results of the reference evaluator.

use std::collections::BTreeSet;

use lessen_cpu::Device;
use lessen_device::suite::{Sample, samples};
use lessen_graph::{DType, Trace, Type, evaluate};

use crate::random::Random;
use crate::table_runs::{assert_runs_like_the_reference, run};

/// The input types of a sample with some extents 0: each axis alone, and all axes of the same extent together.
fn emptied(types: &[Type]) -> Vec<Vec<Type>> {
    let mut all = Vec::new();
    for (input, ty) in types.iter().enumerate() {
        for axis in 0..ty.rank() {
            let mut types = types.to_vec();
            types[input].shape[axis] = 0;
            all.push(types);
        }
    }
    let extents: BTreeSet<usize> = types.iter().flat_map(|ty| ty.shape.clone()).collect();
    for extent in extents {
        let mut types = types.to_vec();
        for n in types.iter_mut().flat_map(|ty| &mut ty.shape).filter(|n| **n == extent) {
            *n = 0;
        }
        all.push(types);
    }
    all
}

#[test]
fn every_standard_operation_runs_on_empty_extents() {
    let (mut random, mut runs) = (Random::new(36), BTreeSet::new());
    let mut device = Device::new(2).unwrap();
    for dtype in [DType::F32, DType::I32, DType::Bool] {
        for sample in samples() {
            let inputs = sample.inputs.iter();
            let types: Vec<Type> = inputs.map(|(own, s)| Type::new(own.unwrap_or(dtype), s)).collect();
            for types in emptied(&types) {
                if sample.op.infer(&types).is_err() {
                    continue;
                }
                runs.insert(sample.op.name());
                let sample = Sample {
                    op: sample.op.clone(),
                    inputs: sample.inputs.clone(),
                };
                assert_runs_like_the_reference(&sample, &types, &mut device, &mut random, 3);
            }
        }
    }
    assert!(runs.len() > 60, "{} operations: {runs:?}", runs.len());
}

#[test]
fn networks_of_empty_three_dimensional_inputs_load() {
    let mut device = Device::new(2).unwrap();
    for shape in [[0, 2, 3], [2, 0, 3], [2, 3, 0], [0, 0, 0], [0, 600, 70]] {
        let trace = Trace::new();
        let x = trace.input("x0", DType::F32, &shape);
        let w = trace.input("x1", DType::F32, &[shape[2], 4]);
        let b = trace.input("x2", DType::F32, &[4]);
        let linear = x.matmul(w) + b;
        trace.output("linear", linear);
        trace.output("norm", linear.gelu().layer_norm(b, b, 1e-5) + linear.relu());
        let both = trace.input("x3", DType::F32, &[shape[0], shape[2], 5]);
        let loss = linear.softmax().sum() + x.matmul(both).sum();
        trace.output("loss", loss);
        for (i, gradient) in loss.grad(&[x, w, b, both]).into_iter().enumerate() {
            trace.output(&format!("gradient{i}"), gradient);
        }
        let graph = trace.finish();
        let types: Vec<Type> = graph.inputs.iter().map(|input| graph.ty(input.value).clone()).collect();
        let inputs = crate::table_runs::random_inputs(&mut Random::new(37), &types, 3);
        let expected = evaluate(&graph, &inputs).unwrap();
        let found = run(&graph, &mut device, &inputs).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        for (name, array) in &expected {
            assert_eq!(found[name].len(), array.data.len(), "{shape:?}: {name}");
            let near = found[name].iter().zip(&array.data).all(|(f, e)| (f - e).abs() < 1e-5);
            assert!(near, "{shape:?}: {name} is {:?}, not {:?}", found[name], array.data);
        }
    }
}
