//! The table of kernels: every standard operation on `f32` and integers has a kernel, which computes what the reference
//! evaluator does.

use std::collections::{BTreeSet, HashMap};

use lessen_compile::{KernelKind, Target};
use lessen_cpu::{CpuTarget, Device, Executable, Host, Store};
use lessen_graph::{Array, DType, Graph, Registry, Trace, Type, evaluate, print};

use crate::plans::runner::{Data, Options, compile};
use crate::random::Random;
use crate::table_samples::{Sample, samples};

/// The samples on each dtype that has kernels and that their type rule admits, with the types of inputs and outputs.
fn admitted() -> Vec<(Sample, Vec<Type>, Vec<Type>)> {
    let mut all = Vec::new();
    for dtype in [DType::F32, DType::I32, DType::U32, DType::U8, DType::Bool] {
        for sample in samples() {
            let inputs = sample.inputs.iter();
            let inputs: Vec<Type> = inputs.map(|(own, s)| Type::new(own.unwrap_or(dtype), s)).collect();
            if let Ok(outputs) = sample.op.infer(&inputs) {
                all.push((sample, inputs, outputs));
            }
        }
    }
    all
}

#[test]
fn every_standard_operation_has_a_kernel_for_f32_and_integers() {
    let target = CpuTarget { threads: 2 };
    let all = admitted();
    for (sample, inputs, outputs) in &all {
        let op = sample.op.as_ref();
        assert!(target.supports(op), "{}", op.name());
        let kind = target.lower(op, inputs, outputs).kind;
        assert_ne!(kind, KernelKind::Reference, "{op:?} on {inputs:?}");
    }
    let names: BTreeSet<&str> = all.iter().map(|(sample, ..)| sample.op.name()).collect();
    let standard = Registry::standard();
    let missing: Vec<&str> = standard.names().into_iter().filter(|n| !names.contains(n)).collect();
    assert!(missing.is_empty(), "no sample of {missing:?}");
}

#[test]
fn every_standard_operation_without_elements_has_a_kernel() {
    let target = CpuTarget { threads: 2 };
    for (sample, mut inputs, _) in admitted() {
        for ty in &mut inputs {
            ty.shape
                .iter_mut()
                .take(1)
                .filter(|_| ty.dtype != DType::U32)
                .for_each(|n| *n = 0);
        }
        if let Ok(outputs) = sample.op.infer(&inputs) {
            let kind = target.lower(sample.op.as_ref(), &inputs, &outputs).kind;
            assert_ne!(kind, KernelKind::Reference, "{:?} on {inputs:?}", sample.op);
        }
    }
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

#[test]
fn every_standard_operation_computes_what_the_reference_does() {
    let mut random = Random::new(11);
    let mut device = Device::new(2).unwrap();
    for (sample, types, _) in admitted() {
        let graph = graph(&sample, &types);
        let mut inputs = HashMap::new();
        for (i, ty) in types.iter().enumerate() {
            let value = |_: &[usize]| match ty.dtype {
                DType::F32 if i >= 2 => f64::from(random.unit_f32().abs()),
                DType::F32 => f64::from(random.unit_f32()),
                DType::Bool => random.below(2) as f64,
                // Valid indices of every sample, too.
                _ => random.below(3) as f64,
            };
            inputs.insert(format!("x{i}"), Array::from_fn(ty.clone(), value));
        }
        let expected = evaluate(&graph, &inputs).unwrap();
        let options = Options {
            threads: 2,
            ..Options::default()
        };
        let plan = compile(&graph, &options).unwrap();
        assert!(plan.reference_nodes().is_empty(), "{}", print(&graph));
        let mut executable = Executable::load(plan);
        let data: Vec<(&String, Data)> = inputs.iter().map(|(n, x)| (n, Data::of(x))).collect();
        let data: Vec<(&str, Host<'_>)> = data.iter().map(|(n, d)| (n.as_str(), d.host())).collect();
        executable.run(&mut device, &mut Store::new(), &data).unwrap();
        for (name, array) in &expected {
            let found: Vec<f64> = executable.output(name).unwrap().elements().collect();
            let finite = array.data.iter().filter(|x| x.is_finite());
            // A sum of `n` numbers of about 1 is as large as their root, and so is its error.
            let elements = types.first().map_or(0, Type::numel);
            let n = elements as f64 / array.data.len().max(1) as f64;
            let largest = finite.fold(n.sqrt().max(1.0), |m, x| m.max(x.abs()));
            for (i, (f, e)) in found.iter().zip(&array.data).enumerate() {
                let same = f == e || (f.is_nan() && e.is_nan());
                let near = (f - e).abs() <= 2e-5 * largest;
                assert!(
                    same || near,
                    "element {i} of {name} is {f}, not {e}, in\n{}",
                    print(&graph)
                );
            }
        }
    }
}
