//! Products of codes against exact integers, to the bit.

use super::support::*;
use lessen_compile::Options;
use lessen_cpu::CpuBackend;
use lessen_cpu::kernels::Rows;
use lessen_cpu::kernels::quantized_matmul::{Factors, quantized_matmul, scratch_bytes};
use lessen_device::{Backend, Host};
use lessen_graph::ops::QuantizedMatMul;
use lessen_graph::{DType, Op, Trace, Type};

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
                        codes: Rows::dense(case.codes.as_ptr().cast_mut(), k),
                        scale: Rows::column(case.scale.as_ptr().cast_mut()),
                        weight,
                        weight_scale: case.weight_scale.as_ptr(),
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
            trace.output("y", codes.quantized_matmul_t(scale, (weight, weight_scale)));
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
                    let given = [("codes", Host::U8(&case.codes)), ("scale", Host::F32(&case.scale))];
                    cpu.run(program, &given).unwrap();
                    let y = cpu.output(program, "y").expect("a result").as_f32().unwrap().to_vec();
                    assert_eq!(
                        bits(&y),
                        case.expected,
                        "{n} x {k} x {c} at {level:?}, {threads} threads"
                    );
                }
            });
        }
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
    assert!(QuantizedMatMul.infer(&types(QuantizedMatMul::MOST)).is_ok());
    let refused = QuantizedMatMul.infer(&types(QuantizedMatMul::MOST + 1)).unwrap_err();
    assert!(refused.message().contains("is above 65536"), "{refused}");
}
