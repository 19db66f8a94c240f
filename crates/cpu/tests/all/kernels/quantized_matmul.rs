//! Products of codes against exact integers, to the bit.

use super::support::*;
use lessen_compile::Options;
use lessen_cpu::CpuBackend;
use lessen_cpu::kernels::Rows;
use lessen_cpu::kernels::codes::quantized_matmul::{Factors, quantized_matmul, scratch_bytes};
use lessen_device::{Backend, Host};
use lessen_graph::ops::{IntegerMatMul, QuantizeLinear, QuantizedMatMul};
use lessen_graph::{DType, Elementwise, Op, Trace, Type};

/// Rows, `k` and columns: one of each, extents that fill no word, vector, panel or task, and many words.
const SIZES: [(usize, usize, usize); 10] = [
    (1, 1, 1),
    (1, 4, 1),
    (3, 7, 5),
    (2, 64, 16),
    (5, 130, 33),
    (1, 768, 200),
    (17, 68, 130),
    (100, 96, 70),
    (197, 132, 65),
    (7, 12000, 20),
];

/// Factors of a product, and the product in exact integers, scaled as the kernel does.
struct Case {
    codes: Vec<u8>,
    scale: Vec<f32>,
    weight: Vec<u8>,
    weight_scale: Vec<f32>,
    expected: Vec<u32>,
}

/// A case of random codes, or, with `extreme`, of the two codes of the largest magnitude.
fn case((n, k, c): (usize, usize, usize), extreme: bool) -> Case {
    let mut r = Random::new((n * 31 + k * 7 + c) as u64);
    let mut codes = |count: usize| -> Vec<u8> {
        let code = |bits: usize| if extreme { [0, 255][bits & 1] } else { bits as u8 };
        (0..count).map(|_| code(r.below(256))).collect()
    };
    let (left, right) = (codes(n * k), codes(c * k));
    let mut scales = |count: usize| -> Vec<f32> { (0..count).map(|_| 0.001 + r.below(1000) as f32 / 7e4).collect() };
    let (scale, weight_scale) = (scales(n), scales(c));
    let mut expected = Vec::new();
    for (row, scale) in left.chunks_exact(k).zip(&scale) {
        for (column, weight_scale) in right.chunks_exact(k).zip(&weight_scale) {
            let terms = row.iter().zip(column);
            let sum: i64 = terms.map(|(a, b)| (i64::from(*a) - 128) * (i64::from(*b) - 128)).sum();
            let sum = i32::try_from(sum).expect("sums of this many terms fit");
            expected.push((sum as f32 * (scale * weight_scale)).to_bits());
        }
    }
    Case {
        codes: left,
        scale,
        weight: right,
        weight_scale,
        expected,
    }
}

fn bits(y: &[f32]) -> Vec<u32> {
    y.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn products_of_codes_are_exact_at_all_levels() {
    for (n, k, c) in SIZES {
        for extreme in [false, true] {
            let case = case((n, k, c), extreme);
            at_all_levels(|level| {
                let mut y = vec![9f32; n * c];
                let mut scratch = vec![0u64; scratch_bytes(k).div_ceil(8)];
                let turned: Vec<u8> = (0..k)
                    .flat_map(|i| (0..c).map(move |j| j * k + i))
                    .map(|at| case.weight[at])
                    .collect();
                for weight in [
                    Rows::dense(case.weight.as_ptr().cast_mut(), k),
                    Rows {
                        ptr: turned.as_ptr().cast_mut(),
                        row: 1,
                        col: c,
                    },
                ] {
                    let factors = Factors {
                        k,
                        zero: 128,
                        codes: Rows::dense(case.codes.as_ptr().cast_mut(), k),
                        scale: Rows::column(case.scale.as_ptr().cast_mut()),
                        weight,
                        weight_scale: case.weight_scale.as_ptr(),
                        bias: std::ptr::null(),
                    };
                    y.fill(9.0);
                    // SAFETY: the factors, the product and the scratch have these sizes.
                    unsafe {
                        quantized_matmul(
                            n,
                            0..c,
                            factors,
                            Rows::dense(y.as_mut_ptr(), c),
                            scratch.as_mut_ptr().cast(),
                        )
                    };
                    assert_eq!(
                        bits(&y),
                        case.expected,
                        "{n} x {k} x {c} at {level:?}, apart: {}",
                        weight.col
                    );
                }
            });
        }
    }
}

#[test]
fn products_of_codes_have_the_same_bits_with_any_number_of_threads() {
    for (n, k, c) in SIZES {
        for extreme in [false, true] {
            let case = case((n, k, c), extreme);
            let trace = Trace::new();
            let codes = trace.input("codes", DType::U8, &[n, k]);
            let scale = trace.input("scale", DType::F32, &[n]);
            let weight = trace.state("weight", DType::U8, &[c, k]);
            let weight_scale = trace.state("weight_scale", DType::F32, &[c]);
            let y = codes.quantized_matmul_t(scale, (weight, weight_scale), None, QuantizedMatMul::default());
            trace.output("y", y + trace.input("row", DType::F32, &[c]));
            let graph = trace.finish();
            at_all_levels(|level| {
                for threads in [1, 2, 3] {
                    let mut cpu = CpuBackend::new(threads).unwrap();
                    let model = cpu.add_model();
                    let plan = lessen_compile::compile(&graph, &Options::default(), cpu.target()).unwrap();
                    let program = cpu.load(model, plan).unwrap();
                    for (name, host) in [
                        ("weight", Host::U8(&case.weight)),
                        ("weight_scale", Host::F32(&case.weight_scale)),
                    ] {
                        let input = graph.inputs.iter().find(|input| input.name == name).unwrap();
                        cpu.allocate(model, name, graph.ty(input.value)).unwrap();
                        cpu.upload(model, name, host).unwrap();
                    }
                    let row: Vec<f32> = (0..c).map(|j| j as f32 - 2.5).collect();
                    let given = [
                        ("codes", Host::U8(&case.codes)),
                        ("scale", Host::F32(&case.scale)),
                        ("row", Host::F32(&row)),
                    ];
                    let sums = case.expected.iter().zip(row.iter().cycle());
                    let expected: Vec<u32> = sums.map(|(y, row)| (f32::from_bits(*y) + row).to_bits()).collect();
                    for is_frozen in [false, true] {
                        if is_frozen {
                            cpu.freeze(program).unwrap();
                        }
                        cpu.run(program, &given).unwrap();
                        let y = cpu.output(program, "y").expect("a result").as_f32().unwrap().to_vec();
                        assert_eq!(
                            bits(&y),
                            expected,
                            "{n} x {k} x {c} at {level:?}, {threads} threads, frozen: {is_frozen}"
                        );
                    }
                }
            });
        }
    }
}

/// Biases are added to the integers, which wrap, in place and in packed matrices.
#[test]
fn integers_of_products_have_their_biases_at_all_levels() {
    for ((n, k, c), zero) in SIZES.into_iter().zip([0, 128, 255, 3, 200].into_iter().cycle()) {
        let case = case((n, k, c), false);
        let bias: Vec<i32> = (0..c as i32).map(|j| i32::MAX - 1_000_000 * j).collect();
        // A power of two, so that quotients are exact.
        let scale = f64::from(case.scale[0] * case.weight_scale[0] * 2f32.powi(25))
            .log2()
            .round()
            .exp2();
        let trace = Trace::new();
        let codes = trace.input("codes", DType::U8, &[n, k]);
        let bias_input = trace.input("bias", DType::I32, &[c]);
        let (weight, again) = (
            trace.state("weight", DType::U8, &[c, k]),
            trace.state("again", DType::U8, &[c, k]),
        );
        trace.output(
            "integers",
            codes.integer_matmul_t(weight, Some(bias_input), IntegerMatMul { zero }),
        );
        let scales = [
            trace.input("scale", DType::F32, &[n]),
            trace.input("of_weight", DType::F32, &[c]),
        ];
        let scaled = codes.quantized_matmul_t(
            scales[0],
            (again, scales[1]),
            Some(bias_input),
            QuantizedMatMul::new(zero),
        );
        trace.output("scaled", scaled);
        let (third, of_result) = (
            trace.state("third", DType::U8, &[c, k]),
            QuantizeLinear { scale, zero: 77 },
        );
        let op = QuantizedMatMul {
            result: Some(of_result),
            ..QuantizedMatMul::new(zero)
        };
        let coded = codes.quantized_matmul_t(scales[0], (third, scales[1]), Some(bias_input), op);
        trace.output("coded", coded);
        let graph = trace.finish();
        let mut integers = Vec::new();
        for row in case.codes.chunks_exact(k) {
            for (column, bias) in case.weight.chunks_exact(k).zip(&bias) {
                let terms = row.iter().zip(column);
                let sum: i64 = terms
                    .map(|(a, b)| (i64::from(*a) - i64::from(zero)) * (i64::from(*b) - 128))
                    .sum();
                integers.push((sum + i64::from(*bias)) as i32);
            }
        }
        let scales = case
            .scale
            .iter()
            .flat_map(|scale| case.weight_scale.iter().map(move |of| scale * of));
        let expected: Vec<u32> = integers
            .iter()
            .zip(scales)
            .map(|(sum, scale)| (*sum as f32 * scale).to_bits())
            .collect();
        let coded: Vec<f64> = expected
            .iter()
            .map(|y| of_result.element(&[f64::from(f32::from_bits(*y))]))
            .collect();
        at_all_levels(|level| {
            let mut cpu = CpuBackend::new(2).unwrap();
            let model = cpu.add_model();
            let plan = lessen_compile::compile(&graph, &Options::default(), cpu.target()).unwrap();
            let program = cpu.load(model, plan).unwrap();
            for name in ["weight", "again", "third"] {
                cpu.allocate(model, name, &Type::new(DType::U8, &[c, k])).unwrap();
                cpu.upload(model, name, Host::U8(&case.weight)).unwrap();
            }
            for is_frozen in [false, true] {
                if is_frozen {
                    cpu.freeze(program).unwrap();
                }
                let given = [
                    ("codes", Host::U8(&case.codes)),
                    ("bias", Host::I32(&bias)),
                    ("scale", Host::F32(&case.scale)),
                    ("of_weight", Host::F32(&case.weight_scale)),
                ];
                cpu.run(program, &given).unwrap();
                let found = cpu.output(program, "integers").expect("a result");
                let found: Vec<i32> = found.host().elements().map(|x| x as i32).collect();
                assert_eq!(found, integers, "{n} x {k} x {c} at {level:?}, frozen: {is_frozen}");
                let y = cpu
                    .output(program, "scaled")
                    .expect("a result")
                    .as_f32()
                    .unwrap()
                    .to_vec();
                assert_eq!(bits(&y), expected, "{n} x {k} x {c} at {level:?}, frozen: {is_frozen}");
                let found: Vec<f64> = cpu
                    .output(program, "coded")
                    .expect("a result")
                    .host()
                    .elements()
                    .collect();
                assert_eq!(found, coded, "{n} x {k} x {c} at {level:?}, frozen: {is_frozen}");
            }
        });
    }
}

#[test]
fn sums_that_do_not_fit_are_refused() {
    let types = |k: usize| {
        [
            Type::new(DType::U8, &[1, k]),
            Type::f32(&[1]),
            Type::new(DType::U8, &[2, k]),
            Type::f32(&[2]),
        ]
    };
    assert!(QuantizedMatMul::default().infer(&types(QuantizedMatMul::MOST)).is_ok());
    let refused = QuantizedMatMul::default()
        .infer(&types(QuantizedMatMul::MOST + 1))
        .unwrap_err();
    assert!(refused.message().contains("is above 65536"), "{refused}");
}
