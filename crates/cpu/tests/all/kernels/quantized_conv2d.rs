//! Convolutions of codes against exact integers, to the bit.

use super::support::*;
use lessen_compile::Options;
use lessen_cpu::CpuBackend;
use lessen_device::{Backend, Host};
use lessen_graph::ops::{QuantizeLinear, QuantizedConv2d};
use lessen_graph::{Array, Conv2dOptions, DType, Trace, Type, evaluate_op};

/// The image `[N, H, W, C]`, output channels, the kernel, and how it slides.
type Size = ([usize; 4], usize, [usize; 2], Conv2dOptions);

fn sizes() -> Vec<Size> {
    let options = |stride, padding, groups| Conv2dOptions {
        stride,
        padding,
        groups,
        ..Conv2dOptions::default()
    };
    let dilated = Conv2dOptions {
        dilation: [2, 3],
        ..options([1, 2], [2, 2, 3, 1], 1)
    };
    let dilated_depthwise = Conv2dOptions {
        dilation: [1, 3],
        ..options([1, 1], [6, 6, 2, 2], 21)
    };
    vec![
        ([1, 1, 1, 1], 1, [1, 1], options([1, 1], [0; 4], 1)),
        ([2, 5, 6, 3], 5, [3, 3], options([1, 1], [1; 4], 1)),
        ([1, 9, 7, 4], 17, [3, 2], options([2, 1], [1, 0, 2, 1], 1)),
        ([1, 12, 13, 64], 70, [3, 3], options([1, 1], [1; 4], 1)),
        ([3, 7, 8, 20], 33, [1, 1], options([2, 2], [0; 4], 1)),
        ([1, 10, 11, 12], 18, [3, 3], options([1, 1], [0; 4], 3)),
        ([1, 10, 11, 6], 4, [3, 3], options([1, 1], [1; 4], 2)),
        ([2, 9, 10, 37], 37, [3, 3], options([1, 1], [1; 4], 37)),
        ([1, 14, 14, 32], 32, [5, 5], options([2, 2], [2; 4], 32)),
        ([1, 1, 9, 16], 16, [1, 3], options([1, 1], [0, 0, 1, 1], 16)),
        ([2, 9, 8, 21], 21, [7, 2], dilated_depthwise),
        ([1, 11, 12, 8], 9, [3, 3], dilated),
        ([1, 30, 31, 16], 130, [2, 2], options([1, 1], [0; 4], 1)),
    ]
}

fn codes(r: &mut Random, shape: &[usize], extreme: bool) -> Array {
    Array::from_fn(Type::new(DType::U8, shape), |_| {
        let bits = r.below(256);
        if extreme { [0.0, 255.0][bits & 1] } else { bits as f64 }
    })
}

fn bytes(array: &Array) -> Vec<u8> {
    array.data.iter().map(|code| *code as u8).collect()
}

#[test]
fn convolutions_of_codes_are_exact_at_all_levels() {
    for (i, (x, outputs, [height, width], options)) in sizes().into_iter().enumerate() {
        for (zero, has_bias, extreme) in [(128, false, false), (128, false, true), (3, true, false)] {
            let mut r = Random::new(i as u64);
            let images = codes(&mut r, &x, extreme);
            let weight = codes(&mut r, &[outputs, height, width, x[3] / options.groups], extreme);
            let mut scales = |n: usize| -> Vec<f32> { (0..n).map(|_| 0.01 + r.below(1000) as f32 / 7e3).collect() };
            let (scale, of_weight) = (scales(x[0]), scales(outputs));
            let bias: Vec<i32> = (0..outputs as i32).map(|o| 5_000_000 - 77_777 * o).collect();
            let op = QuantizedConv2d::new(options, zero);

            // The operation with all scales 1 gives the integers.
            let ones = [
                Array::full(Type::f32(&[x[0]]), 1.0),
                Array::full(Type::f32(&[outputs]), 1.0),
            ];
            let bias_array = Array::i32(&[outputs], &bias);
            let mut given = vec![&images, &ones[0], &weight, &ones[1]];
            given.extend(has_bias.then_some(&bias_array));
            let sums = evaluate_op(&op, &given).unwrap().remove(0);
            let image = sums.data.len() / x[0];
            let expected = sums.data.iter().enumerate().map(|(i, sum)| {
                let both = scale[i / image] * of_weight[i % outputs];
                (*sum as i32 as f32 * both).to_bits()
            });
            let expected: Vec<u32> = expected.collect();
            // A result of codes has those of a division.
            let to_codes = QuantizeLinear {
                scale: (0.037f32 * (1 + i) as f32).into(),
                zero: 11,
            };
            let code = |bits: &u32| {
                let code = (f32::from_bits(*bits) / to_codes.scale as f32).round_ties_even() + 11.0;
                code.clamp(0.0, 255.0) as u8
            };
            let expected_codes: Vec<u8> = expected.iter().map(code).collect();

            let trace = Trace::new();
            let codes = trace.input("codes", DType::U8, &x);
            let (scale_input, bias_input) = (
                trace.input("scale", DType::F32, &[x[0]]),
                has_bias.then(|| trace.input("bias", DType::I32, &[outputs])),
            );
            let kernel = trace.state("weight", DType::U8, &weight.ty.shape);
            let of_kernel = trace.input("of_weight", DType::F32, &[outputs]);
            let result = |op| codes.quantized_conv2d(scale_input, (kernel, of_kernel), bias_input, op);
            trace.output("y", result(op));
            let result_of_codes = QuantizedConv2d {
                result: Some(to_codes),
                ..op
            };
            trace.output("codes", result(result_of_codes));
            let graph = trace.finish();
            let mut host = vec![("scale", Host::F32(&scale)), ("of_weight", Host::F32(&of_weight))];
            let pixels = bytes(&images);
            host.push(("codes", Host::U8(&pixels)));
            if has_bias {
                host.push(("bias", Host::I32(&bias)));
            }
            at_all_levels(|level| {
                for threads in [1, 3] {
                    let mut cpu = CpuBackend::new(threads).unwrap();
                    let model = cpu.add_model();
                    let plan = lessen_compile::compile(&graph, &Options::default(), cpu.target()).unwrap();
                    let program = cpu.load(model, plan).unwrap();
                    cpu.allocate(model, "weight", &weight.ty).unwrap();
                    cpu.upload(model, "weight", Host::U8(&bytes(&weight))).unwrap();
                    for is_frozen in [false, true] {
                        if is_frozen {
                            cpu.freeze(program).unwrap();
                        }
                        cpu.run(program, &host).unwrap();
                        let y = cpu.output(program, "y").expect("a result").as_f32().unwrap().to_vec();
                        let found: Vec<u32> = y.iter().map(|x| x.to_bits()).collect();
                        let case = format!("{i}, zero {zero}, {level:?}, {threads} threads, frozen: {is_frozen}");
                        assert_eq!(found, expected, "case {case}");
                        let found = cpu.output(program, "codes").expect("a result");
                        let Host::U8(found) = found.host() else {
                            panic!("codes are bytes")
                        };
                        assert_eq!(found, expected_codes, "codes of case {case}");
                    }
                }
            });
        }
    }
}
