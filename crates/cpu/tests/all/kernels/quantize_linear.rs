//! Codes of numbers with one scale, which have the bits of a division.

use super::support::*;
use lessen_compile::Options;
use lessen_cpu::CpuBackend;
use lessen_device::{Backend, Host};
use lessen_graph::{DType, Trace};

/// Numbers at and beside the middles between codes, beyond all codes, and those that are no numbers.
fn near_middles(scale: f32, r: &mut Random) -> Vec<f32> {
    let mut all = vec![
        0.0,
        -0.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        f32::MIN,
    ];
    all.extend([f32::MIN_POSITIVE, f32::from_bits(1), scale, -scale]);
    for code in -260..261 {
        let middle = (code as f32 + 0.5) * scale;
        for step in -2..3i32 {
            all.push(f32::from_bits(middle.to_bits().saturating_add_signed(step)));
        }
        all.push((code as f32 + r.below(1 << 16) as f32 / 65536.0) * scale);
    }
    all
}

#[test]
fn codes_are_those_of_a_division() {
    let mut r = Random::new(17);
    let mut scales = vec![1.0, 0.1, 3.0, 1.0 / 255.0, 0.999_999_94, 1.999_999_9, f32::MIN_POSITIVE];
    scales.extend([
        f32::from_bits(1),
        f32::from_bits(12_345),
        f32::MAX,
        1e-38,
        1e38,
        2e-20,
        2e20,
    ]);
    // Any positive number.
    scales.extend((0..120).map(|_| f32::from_bits(1 + r.below(0x7f7f_fffe) as u32)));
    // Numbers with long rows of ones at the end, whose inverses are the hardest to round.
    scales.extend((1..40).map(|i| f32::from_bits(0x3fff_ffff - i)));
    for scale in scales {
        let zero = [0, 128, 255, 3][r.below(4)];
        let x = near_middles(scale, &mut r);
        let expected = x.iter().map(|x| {
            let code = (x / scale).round_ties_even() + f32::from(zero);
            if code.is_nan() { 0 } else { code.clamp(0.0, 255.0) as u8 }
        });
        let expected: Vec<u8> = expected.collect();
        let trace = Trace::new();
        let numbers = trace.input("x", DType::F32, &[x.len()]);
        trace.output("codes", numbers.quantize_linear(scale, zero));
        let graph = trace.finish();
        at_all_levels(|level| {
            let mut cpu = CpuBackend::new(1).unwrap();
            let model = cpu.add_model();
            let plan = lessen_compile::compile(&graph, &Options::default(), cpu.target()).unwrap();
            let program = cpu.load(model, plan).unwrap();
            cpu.run(program, &[("x", Host::F32(&x))]).unwrap();
            let found = cpu.output(program, "codes").expect("a result");
            let Host::U8(found) = found.host() else {
                panic!("codes are bytes")
            };
            for ((x, found), expected) in x.iter().zip(found).zip(&expected) {
                assert_eq!(found, expected, "{x:e} / {scale:e} + {zero}, {level:?}");
            }
        });
    }
}
