//! The table of kernels: every standard operation on `f32` and integers has a kernel.

use std::collections::BTreeSet;

use lessen_compile::{KernelKind, Target};
use lessen_cpu::{CpuTarget, Device};
use lessen_device::suite::{Sample, samples};
use lessen_graph::{DType, Registry, Type, print};

use crate::plans::runner::{Options, compile};
use crate::random::Random;
use crate::table_runs::{assert_runs_like_the_reference, graph};

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

#[test]
fn every_standard_operation_computes_what_the_reference_does() {
    let mut random = Random::new(11);
    let mut device = Device::new(2).unwrap();
    for (sample, types, _) in admitted() {
        let options = Options {
            threads: 2,
            ..Options::default()
        };
        let graph = graph(&sample, &types);
        let plan = compile(&graph, &options).unwrap();
        assert!(plan.reference_nodes().is_empty(), "{}", print(&graph));
        // Valid indices of every sample, too.
        assert_runs_like_the_reference(&sample, &types, &mut device, &mut random, 3);
    }
}
