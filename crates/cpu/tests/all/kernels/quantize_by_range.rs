//! Codes of numbers by their range.

use super::support::*;
use lessen_compile::Options;
use lessen_cpu::CpuBackend;
use lessen_device::{Backend, Host};
use lessen_graph::ops::QuantizeByRange;
use lessen_graph::{DType, Trace};

/// One number, parts of a vector, and several parts of the work; in any range, beside zero and with numbers that are
/// none.
fn cases() -> Vec<Vec<f32>> {
    let mut r = Random::new(5);
    let mut all = vec![vec![0.0; 7], vec![f32::NAN, 3.0, -0.0], vec![-2.5], vec![1e-40, 2e-40]];
    for (count, offset) in [(1, 3.0), (70, 0.0), (70, 2.0), (70, -2.0), (100_003, 0.3)] {
        all.push(
            (0..count)
                .map(|_| r.below(4000) as f32 / 2000.0 - 1.0 + offset)
                .collect(),
        );
    }
    all
}

#[test]
fn codes_scale_and_zero_are_those_of_the_range() {
    for x in cases() {
        let least = x.iter().fold(0f32, |least, x| least.min(*x));
        let most = x.iter().fold(0f32, |most, x| most.max(*x));
        let (scale, zero) = QuantizeByRange::scale(least, most);
        let codes: Vec<u8> = x.iter().map(|x| QuantizeByRange::code(*x, (scale, zero))).collect();
        let trace = Trace::new();
        let found = trace.input("x", DType::F32, &[x.len()]).quantize_by_range();
        for (name, value) in ["codes", "scale", "zero"].into_iter().zip(found) {
            trace.output(name, value);
        }
        let graph = trace.finish();
        at_all_levels(|level| {
            let mut cpu = CpuBackend::new(2).unwrap();
            let model = cpu.add_model();
            let plan = lessen_compile::compile(&graph, &Options::default(), cpu.target()).unwrap();
            let program = cpu.load(model, plan).unwrap();
            cpu.run(program, &[("x", Host::F32(&x))]).unwrap();
            let bytes = |name: &str| match cpu.output(program, name).expect("a result").host() {
                Host::U8(bytes) => bytes.to_vec(),
                _ => panic!("{name} are bytes"),
            };
            let of = format!("{} numbers from {least} to {most}, {level:?}", x.len());
            assert!(bytes("codes") == codes, "{of}");
            assert_eq!(bytes("zero"), [zero], "{of}");
            match cpu.output(program, "scale").expect("a result").host() {
                Host::F32(found) => assert_eq!(found, [scale], "{of}"),
                _ => panic!("the scale is a number"),
            }
        });
    }
}
