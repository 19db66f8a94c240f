//! Folded values equal the values that the device computes.

use lessen_base::SplitMix64;
use lessen_compile::Options;
use lessen_cpu::CpuBackend;
use lessen_device::{Backend, Host};
use lessen_graph::{DType, Graph, Tensor, Trace};

/// A random expression of exactly rounded functions over `leaves`.
fn expression(random: &mut SplitMix64, leaves: &[Tensor]) -> Tensor {
    let mut values = leaves.to_vec();
    for _ in 0..12 {
        let mut pick = || values[random.below(values.len() as u64) as usize];
        let (a, b) = (pick(), pick());
        values.push(match random.below(9) {
            0 => a + b,
            1 => a - b,
            2 => a * b,
            3 => a / b,
            4 => a.maximum(b),
            5 => a.minimum(b),
            6 => a.abs().sqrt(),
            7 => -a,
            _ => a.gt(b).select(a, b),
        });
    }
    values[values.len() - 1]
}

fn run(graph: &Graph, data: &[(&str, Host<'_>)]) -> Vec<u32> {
    let mut backend: Box<dyn Backend> = Box::new(CpuBackend::new(1).expect("one thread"));
    let plan = backend.compile(graph, &Options::default()).expect("the graph compiles");
    let model = backend.add_model();
    let program = backend.load(model, plan).expect("the plan loads");
    backend.run(program, data).expect("the program runs");
    let output = backend.output(program, "y").expect("an output");
    let output = output.as_f32().expect("an f32 output");
    output.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn folded_constants_have_the_bits_that_the_device_computes() {
    for seed in 0..60 {
        let mut random = SplitMix64::new(seed);
        let leaves: Vec<f32> = (0..4)
            .map(|_| ((random.unit() - 0.5) * 2f64.powi(random.below(40) as i32 - 12)) as f32)
            .collect();
        let after_leaves = random.clone();

        let folded = Trace::new();
        let constants: Vec<Tensor> = (leaves.iter())
            .map(|&x| folded.full(DType::F32, &[], f64::from(x)))
            .collect();
        folded.output("y", expression(&mut random, &constants));

        let computed = Trace::new();
        let names: Vec<String> = (0..leaves.len()).map(|i| format!("x{i}")).collect();
        let inputs: Vec<Tensor> = (names.iter())
            .map(|name| computed.input(name, DType::F32, &[]))
            .collect();
        computed.output("y", expression(&mut after_leaves.clone(), &inputs));

        let data: Vec<(&str, Host<'_>)> = (names.iter().zip(&leaves))
            .map(|(name, x)| (name.as_str(), Host::F32(std::slice::from_ref(x))))
            .collect();
        let (folded, computed) = (run(&folded.finish(), &[]), run(&computed.finish(), &data));
        let nan = |bits: &[u32]| f32::from_bits(bits[0]).is_nan();
        assert!(
            folded == computed || nan(&folded) && nan(&computed),
            "seed {seed}: {folded:?} is folded, {computed:?} computed"
        );
    }
}
