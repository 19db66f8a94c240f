//! States that never change: products read them packed, with the results and the errors that a backend promises.

use std::collections::HashMap;

use lessen_base::SplitMix64;
use lessen_compile::Options;
use lessen_cpu::CpuBackend;
use lessen_cpu::simd::{CpuSet, Feature};
use lessen_device::{Backend, Host, HostArray, ModelId, ProgramId};
use lessen_graph::ops::{Conv2dGradInput, IntegerMatMul};
use lessen_graph::{Array, Conv2dOptions, DType, Graph, Tensor, Trace, Type, evaluate_exactly};

/// Rows, `k` and columns of products: of one tile and of many, with columns that fill no vector, panel or task.
const SIZES: [(usize, usize, usize); 7] = [
    (17, 40, 64),
    (197, 192, 192),
    (96, 70, 130),
    (300, 33, 1000),
    (513, 64, 48),
    (1030, 96, 17),
    (40, 5000, 70),
];

fn values(seed: u64, count: usize) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    (0..count).map(|_| random.below(2001) as f32 / 1000.0 - 1.0).collect()
}

/// `y = x w` or `x w^T`, and with `shares` the sum of `w` beside it.
fn product((rows, k, columns): (usize, usize, usize), is_transposed: bool, shares: bool) -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[rows, k]);
    let shape = if is_transposed { [columns, k] } else { [k, columns] };
    let w = trace.state("w", DType::F32, &shape);
    trace.output("y", if is_transposed { x.matmul_t(w) } else { x.matmul(w) });
    if shares {
        trace.output("sum", w.sum());
    }
    trace.finish()
}

fn loaded(graph: &Graph, threads: usize, w: &[f32]) -> (CpuBackend, ModelId, ProgramId) {
    let mut cpu = CpuBackend::new(threads).unwrap();
    let model = cpu.add_model();
    let plan = lessen_compile::compile(graph, &Options::default(), cpu.target()).unwrap();
    let program = cpu.load(model, plan).unwrap();
    let state = graph.inputs.iter().find(|input| input.name == "w").unwrap();
    cpu.allocate(model, "w", graph.ty(state.value)).unwrap();
    cpu.upload(model, "w", Host::F32(w)).unwrap();
    (cpu, model, program)
}

fn run(cpu: &mut CpuBackend, program: ProgramId, x: &[f32]) -> Vec<f32> {
    cpu.run(program, &[("x", Host::F32(x))]).unwrap();
    let y = cpu.output(program, "y").expect("a result");
    y.as_f32().expect("a product is f32").to_vec()
}

#[test]
fn frozen_products_are_near_exact_ones_and_their_bits_do_not_depend_on_threads() {
    for (rows, k, columns) in SIZES {
        for is_transposed in [false, true] {
            let what = format!("{rows} x {k} x {columns}, transposed: {is_transposed}");
            let graph = product((rows, k, columns), is_transposed, false);
            let (x, w) = (values(1, rows * k), values(2, k * columns));
            let given = graph.inputs.iter().map(|input| {
                let from = if input.name == "x" { &x } else { &w };
                let data = from.iter().map(|x| f64::from(*x)).collect();
                (input.name.clone(), Array::new(graph.ty(input.value).clone(), data))
            });
            let given: HashMap<String, Array> = given.collect();
            let expected = &evaluate_exactly(&graph, &given).unwrap()["y"].data;
            let found = [1, 2, 3].map(|threads| {
                let (mut cpu, _, program) = loaded(&graph, threads, &w);
                cpu.freeze(program).unwrap();
                let first = run(&mut cpu, program, &x);
                assert_eq!(first, run(&mut cpu, program, &x), "{what}: a second run");
                first
            });
            assert!(found[0] == found[1] && found[1] == found[2], "{what}: threads");
            for (i, (&found, &expected)) in found[0].iter().zip(expected).enumerate() {
                let bound = 2e-7 * k as f64;
                assert!(
                    (f64::from(found) - expected).abs() < bound,
                    "{what}, element {i}: {found}, not {expected}"
                );
            }
        }
    }
}

/// Two layers with biases, where the second layer reads the result of the first, and a residual sum; with `keeps` the
/// first product is a result, too.
fn layers(rows: usize, keeps: bool) -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[rows, 48]);
    let state = |name: &str, shape: &[usize]| trace.state(name, DType::F32, shape);
    let product = x.matmul(state("w1", &[48, 90]));
    let hidden = (product + state("b1", &[90])).gelu();
    let y = state("b2", &[48]) + hidden.matmul(state("w2", &[90, 48]));
    trace.output("y", x + y);
    if keeps {
        trace.output("product", product);
    }
    trace.finish()
}

#[test]
fn rows_that_are_added_to_frozen_products_are_part_of_them() {
    for rows in [20, 197, 600, 1576] {
        for keeps in [false, true] {
            let graph = layers(rows, keeps);
            let mut seed = 0;
            let given: HashMap<String, Array> = graph
                .inputs
                .iter()
                .map(|input| {
                    seed += 1;
                    let ty = graph.ty(input.value).clone();
                    let data = values(seed, ty.numel()).iter().map(|x| f64::from(*x)).collect();
                    (input.name.clone(), Array::new(ty, data))
                })
                .collect();
            let data = |name: &str| given[name].data.iter().map(|x| *x as f32).collect::<Vec<f32>>();
            let expected = evaluate_exactly(&graph, &given).unwrap();
            let found = [1, 2].map(|threads| {
                let mut cpu = CpuBackend::new(threads).unwrap();
                let model = cpu.add_model();
                let plan = lessen_compile::compile(&graph, &Options::default(), cpu.target()).unwrap();
                let program = cpu.load(model, plan).unwrap();
                for input in graph.inputs.iter().filter(|input| input.name != "x") {
                    cpu.allocate(model, &input.name, graph.ty(input.value)).unwrap();
                    cpu.upload(model, &input.name, Host::F32(&data(&input.name))).unwrap();
                }
                cpu.freeze(program).unwrap();
                let y = run(&mut cpu, program, &data("x"));
                for (name, expected) in &expected {
                    let found = cpu.output(program, name).expect("a result");
                    let found = found.as_f32().expect("it is f32");
                    for (i, (found, expected)) in found.iter().zip(&expected.data).enumerate() {
                        let is_near = (f64::from(*found) - expected).abs() < 1e-4;
                        assert!(is_near, "{rows} rows, {name}, element {i}: {found}, not {expected}");
                    }
                }
                y
            });
            assert!(found[0] == found[1], "{rows} rows: threads");
        }
    }
}

#[test]
fn a_state_that_another_operation_reads_stays_as_it_is() {
    let size = (64, 48, 64);
    let graph = product(size, false, true);
    let (x, w) = (values(1, 64 * 48), values(2, 48 * 64));
    let (mut cpu, model, program) = loaded(&graph, 2, &w);
    let before = run(&mut cpu, program, &x);
    cpu.freeze(program).unwrap();
    assert_eq!(run(&mut cpu, program, &x), before);
    let mut same = false;
    cpu.download(model, "w", &mut |host| same = host == Host::F32(&w))
        .unwrap();
    assert!(same);
}

#[test]
fn what_is_packed_is_neither_shown_nor_changed_nor_read_by_another_program() {
    let size = (64, 48, 64);
    let graph = product(size, false, false);
    let (x, w) = (values(1, 64 * 48), values(2, 48 * 64));
    let (mut cpu, model, program) = loaded(&graph, 2, &w);
    cpu.freeze(program).unwrap();
    let mut is_plain = false;
    if cpu
        .download(model, "w", &mut |host| is_plain = host == Host::F32(&w))
        .is_ok()
    {
        // Machines without AVX2 leave states as they are.
        assert!(is_plain);
        return;
    }
    assert!(cpu.upload(model, "w", Host::F32(&w)).is_err());
    let plan = lessen_compile::compile(&graph, &Options::default(), cpu.target()).unwrap();
    let other = cpu.load(model, plan).unwrap();
    let error = cpu.run(other, &[("x", Host::F32(&x))]).unwrap_err();
    assert!(error.to_string().contains("`w`"), "{error}");
    // A state that is allocated again is a plain one, which the frozen program does not read.
    cpu.allocate(model, "w", &Type::f32(&[48, 64])).unwrap();
    assert!(cpu.run(other, &[("x", Host::F32(&x))]).is_ok());
    assert!(cpu.run(program, &[("x", Host::F32(&x))]).is_err());
    // Nor does it read one that is packed for the other program.
    cpu.upload(model, "w", Host::F32(&w)).unwrap();
    cpu.freeze(other).unwrap();
    assert!(cpu.run(other, &[("x", Host::F32(&x))]).is_ok());
    let error = cpu.run(program, &[("x", Host::F32(&x))]).unwrap_err();
    assert!(error.to_string().contains("packed for another program"), "{error}");
}

/// A convolution of images `[N, H, W, C]` with a state as its weight, or its derivative by the images.
fn convolution(images: [usize; 4], weight: [usize; 4], options: Conv2dOptions, is_derivative: bool) -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &images);
    let w = trace.state("w", DType::F32, &weight);
    let y = if is_derivative {
        let size = [images[1] + weight[2] - 1, images[2] + weight[3] - 1];
        trace.apply1(Conv2dGradInput { size, options }, &[x, w])
    } else {
        x.conv2d(w, options)
    };
    trace.output("y", y);
    trace.finish()
}

#[test]
fn frozen_convolutions_are_near_exact_ones_and_have_the_bits_of_others_but_by_tiles() {
    let plain = Conv2dOptions::default();
    let padded = Conv2dOptions {
        padding: [1, 1, 1, 1],
        ..plain
    };
    let apart = Conv2dOptions {
        stride: [2, 3],
        dilation: [2, 1],
        padding: [2, 1, 0, 0],
        ..plain
    };
    let grouped = Conv2dOptions { groups: 2, ..padded };
    let cases = [
        ([1, 1, 400, 1], [70, 1, 1, 33], plain, false),
        ([1, 9, 7, 3], [17, 3, 3, 3], plain, false),
        ([2, 12, 11, 5], [24, 5, 3, 4], apart, false),
        ([1, 10, 10, 32], [48, 32, 3, 3], padded, false),
        ([3, 20, 20, 16], [33, 16, 3, 3], padded, false),
        ([2, 6, 6, 24], [20, 12, 3, 3], grouped, false),
        ([1, 7, 5, 18], [18, 20, 3, 2], plain, true),
        ([2, 9, 10, 40], [40, 33, 3, 3], plain, true),
    ];
    for (images, weight, options, is_derivative) in cases {
        let what = format!("{images:?}, {weight:?}, {options:?}, derivative: {is_derivative}");
        let graph = convolution(images, weight, options, is_derivative);
        let (x, w) = (values(3, images.iter().product()), values(4, weight.iter().product()));
        let given = [("x", &images, &x), ("w", &weight, &w)].map(|(name, shape, from)| {
            let data = from.iter().map(|x| f64::from(*x)).collect();
            (name.to_string(), Array::new(Type::new(DType::F32, shape), data))
        });
        let expected = &evaluate_exactly(&graph, &HashMap::from(given)).unwrap()["y"].data;
        let (mut cpu, _, program) = loaded(&graph, 2, &w);
        let plain = run(&mut cpu, program, &x);
        let frozen = [1, 2, 3].map(|threads| {
            let (mut cpu, _, program) = loaded(&graph, threads, &w);
            cpu.freeze(program).unwrap();
            let first = run(&mut cpu, program, &x);
            assert!(run(&mut cpu, program, &x) == first, "{what}: a second run");
            first
        });
        assert!(frozen[0] == frozen[1] && frozen[1] == frozen[2], "{what}: threads");
        // Tiles of AMX split each number; what is frozen is read as it is.
        if !CpuSet::detect().has(Feature::Amx) {
            assert!(frozen[0] == plain, "{what}");
        }
        for (i, (found, expected)) in plain.iter().chain(&frozen[0]).zip(expected.iter().cycle()).enumerate() {
            let is_near = (f64::from(*found) - expected).abs() < 1e-4;
            assert!(is_near, "{what}, element {i}: {found}, not {expected}");
        }
    }
}

/// Without AMX, whose tiles compute weights that are not frozen.
#[test]
fn a_frozen_weight_in_slices_has_the_bits_of_others() {
    if CpuSet::detect().has(Feature::Amx) {
        return;
    }
    let padding = Conv2dOptions {
        padding: [1; 4],
        ..Conv2dOptions::default()
    };
    let graph = convolution([1, 12, 12, 1000], [66, 1000, 3, 3], padding, false);
    let (x, w) = (values(3, 144_000), values(4, 594_000));
    let (mut cpu, _, program) = loaded(&graph, 2, &w);
    let plain = run(&mut cpu, program, &x);
    cpu.freeze(program).unwrap();
    assert!(run(&mut cpu, program, &x) == plain);
}

/// Views of a state `w` of shape `[64, 48]` as `[64, 48]`: turned, its first row, its last one or a number for all.
fn views(w: Tensor) -> [Tensor; 4] {
    [
        w.reshape(&[48, 64]).transpose(0, 1),
        w.slice(0, 0, 1).broadcast_to(&[64, 48]),
        w.slice(0, 63, 1).broadcast_to(&[64, 48]),
        w.slice(0, 63, 1).slice(1, 47, 1).broadcast_to(&[64, 48]),
    ]
}

#[test]
fn a_row_of_a_state_that_is_repeated_is_not_read_as_the_whole_state() {
    for of_codes in [false, true] {
        for view in 0..4 {
            let trace = Trace::new();
            let dtype = if of_codes { DType::U8 } else { DType::F32 };
            let x = trace.input("x", dtype, &[40, 48]);
            let w = views(trace.state("w", dtype, &[64, 48]))[view];
            if of_codes {
                trace.output("y", trace.apply1(IntegerMatMul { zero: 7 }, &[x, w]));
            } else {
                trace.output("y", x.matmul_t(w));
            }
            let graph = trace.finish();
            let mut random = SplitMix64::new(5);
            let mut given = HashMap::new();
            for (name, shape) in [("x", [40, 48]), ("w", [64, 48])] {
                let ty = Type::new(dtype, &shape);
                let data = (0..ty.numel()).map(|_| random.below(200) as f64).collect();
                given.insert(name.to_string(), Array::new(ty, data));
            }
            let host = |name: &str| HostArray::of(dtype, &given[name].data);
            let expected = &evaluate_exactly(&graph, &given).unwrap()["y"].data;
            let mut cpu = CpuBackend::new(2).unwrap();
            let model = cpu.add_model();
            let plan = lessen_compile::compile(&graph, &Options::default(), cpu.target()).unwrap();
            let program = cpu.load(model, plan).unwrap();
            let state = graph.inputs.iter().find(|input| input.name == "w").unwrap();
            cpu.allocate(model, "w", graph.ty(state.value)).unwrap();
            cpu.upload(model, "w", host("w").host()).unwrap();
            for is_frozen in [false, true] {
                if is_frozen {
                    cpu.freeze(program).unwrap();
                }
                cpu.run(program, &[("x", host("x").host())]).unwrap();
                let found = cpu.output(program, "y").unwrap();
                let found: Vec<f64> = found.host().elements().collect();
                // Sums of products of whole numbers are exact in `f32`, too.
                assert!(
                    &found == expected,
                    "codes: {of_codes}, view {view}, frozen: {is_frozen}"
                );
            }
        }
    }
}
