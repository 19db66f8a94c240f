//! Convolution at random shapes against the evaluation in `f64`, and beside plain loops in `f32`.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_cpu::simd::Feature;
use lessen_graph::ops::*;
use lessen_graph::{Array, DType, Graph, Op, Trace, Type, evaluate_op};

use super::support::*;
use crate::plans::runner::{Options, run_once};

/// The fewest channels on both sides of a convolution by minimal filtering.
const LEAST_FILTERED: usize = 32;

/// An operation with its inputs, and the results of plain loops in `f32`.
pub(super) struct Case {
    pub(super) op: Arc<dyn Op>,
    pub(super) inputs: Vec<Array>,
    pub(super) plain: Vec<f32>,
    /// How large results are.
    pub(super) floor: f64,
    /// How many times the error of plain loops is allowed.
    pub(super) times: f64,
}

pub(super) fn case(op: impl Op, inputs: &[&Array], len: usize, floor: f64, add: impl FnOnce(&mut [f32])) -> Case {
    let mut plain = vec![0.0; len];
    add(&mut plain);
    Case {
        op: Arc::new(op),
        inputs: inputs.iter().map(|x| (*x).clone()).collect(),
        plain,
        floor,
        times: 2.0,
    }
}

fn graph(case: &Case) -> (Graph, HashMap<String, Array>) {
    let trace = Trace::new();
    let mut inputs = HashMap::new();
    let tensors: Vec<_> = (case.inputs.iter().enumerate())
        .map(|(i, x)| {
            // A run takes no bf16; the numbers are the same in f32.
            let dtype = if x.ty.dtype == DType::BF16 {
                DType::F32
            } else {
                x.ty.dtype
            };
            let given = Array::new(Type::new(dtype, &x.ty.shape), x.data.clone());
            inputs.insert(format!("x{i}"), given);
            trace.input(&format!("x{i}"), dtype, &x.ty.shape).cast(x.ty.dtype)
        })
        .collect();
    trace.output("y", trace.apply_shared(case.op.clone(), &tensors)[0]);
    (trace.finish(), inputs)
}

/// The results of a case on one thread.
pub(super) fn run(case: &Case) -> Vec<f32> {
    let (graph, inputs) = graph(case);
    let (_, mut results) = run_once(&graph, &Options::default(), &inputs);
    results.remove("y").unwrap()
}

/// Checks a case at all levels and with several threads, which must not change a bit; where `same` is set, neither must
/// the levels with a fused multiply-add.
pub(super) fn check(what: &str, case: &Case, same: bool) {
    let (graph, inputs) = graph(case);
    let expected = evaluate_op(&*case.op, &case.inputs.iter().collect::<Vec<_>>())
        .unwrap()
        .remove(0);
    let run = |threads| {
        let options = Options {
            threads,
            ..Options::default()
        };
        let (plan, mut results) = run_once(&graph, &options, &inputs);
        assert!(plan.reference_nodes().is_empty(), "{what}: {:?} has no kernel", case.op);
        results.remove("y").unwrap()
    };
    let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<u32>>();
    let highest = run(1);
    assert_eq!(bits(&run(3)), bits(&highest), "{what}: threads change {:?}", case.op);
    at_all_levels(|level| {
        let found = run(1);
        let what = format!("{what}, {level:?}, {:?}", case.op);
        assert_within(case.times, &what, &found, &case.plain, &expected.data, case.floor);
        if same && level.has(Feature::Avx2) {
            assert_eq!(bits(&found), bits(&highest), "{what}");
        }
    });
}

/// Calls `f` with the positions in image, weight and result of each product of a convolution.
fn for_each_product(n: &Conv2dSizes, mut f: impl FnMut([usize; 3])) {
    let (c, o) = (n.group_inputs(), n.group_outputs());
    for y in 0..n.images * n.rows.windows * n.columns.windows * n.outputs {
        let (pixel, out) = (y / n.outputs, y % n.outputs);
        let (row, column) = (pixel / n.columns.windows, pixel % n.columns.windows);
        let (image, row) = (row / n.rows.windows, row % n.rows.windows);
        for tap in 0..n.rows.taps * n.columns.taps {
            let (kh, kw) = (tap / n.columns.taps, tap % n.columns.taps);
            let (Some(a), Some(b)) = (n.rows.position(row, kh), n.columns.position(column, kw)) else {
                continue;
            };
            let x = ((image * n.rows.input + a) * n.columns.input + b) * n.inputs + out / o * c;
            let taps = n.rows.taps * n.columns.taps;
            (0..c).for_each(|i| f([x + i, (out * c + i) * taps + tap, y]));
        }
    }
}

/// Whether a convolution may have the error of minimal filtering.
fn is_filtered(n: &Conv2dSizes) -> bool {
    let is_plain = [n.rows, n.columns].map(|slide| (slide.taps, slide.stride, slide.dilation) == (3, 1, 1));
    n.groups == 1 && is_plain == [true; 2] && n.inputs.min(n.outputs) >= LEAST_FILTERED
}

/// The three operations of one convolution.
pub(super) fn convolution(random: &mut Random, x: &[usize], weight: &[usize], options: Conv2dOptions) -> Vec<Case> {
    let (x, weight) = (random.array(x, 1.0), random.array(weight, 1.0));
    let types = [x.ty.clone(), weight.ty.clone()];
    let sizes = Conv2d { options }.sizes(&types).unwrap();
    let y = Conv2d { options }.infer(&types).unwrap().remove(0);
    let dy = random.array(&y.shape, 1.0);
    let mut products = 0;
    for_each_product(&sizes, |_| products += 1);
    let of = |array: &Array, i: usize| array.data[i] as f32;
    // The standard deviation of a sum of products of numbers in -1..1.
    let floor = |len: usize| (f64::from(products) / len as f64).sqrt() / 3.0;
    let (size, kernel) = ([x.ty.shape[1], x.ty.shape[2]], [weight.ty.shape[2], weight.ty.shape[3]]);
    let mut cases = vec![
        case(
            Conv2d { options },
            &[&x, &weight],
            y.numel(),
            floor(y.numel()),
            |sums| for_each_product(&sizes, |p| sums[p[2]] += of(&x, p[0]) * of(&weight, p[1])),
        ),
        case(
            Conv2dGradInput { options, size },
            &[&dy, &weight],
            x.data.len(),
            floor(x.data.len()),
            |sums| for_each_product(&sizes, |p| sums[p[0]] += of(&dy, p[2]) * of(&weight, p[1])),
        ),
        case(
            Conv2dGradWeight { options, kernel },
            &[&x, &dy],
            weight.data.len(),
            floor(weight.data.len()),
            |sums| for_each_product(&sizes, |p| sums[p[1]] += of(&x, p[0]) * of(&dy, p[2])),
        ),
    ];
    if is_filtered(&sizes) {
        cases.iter_mut().for_each(|case| case.times = 4.0);
    }
    cases
}

/// Height and width of an image that windows of this extent fit into, and paddings below the extent.
pub(super) fn image(
    random: &mut Random,
    kernel: [usize; 2],
    dilation: [usize; 2],
    most: usize,
) -> ([usize; 2], [usize; 4]) {
    let covered = [0, 1].map(|axis| (kernel[axis] - 1) * dilation[axis] + 1);
    let padding = std::array::from_fn(|side| random.below(kernel[side / 2]));
    let size = [0, 1].map(|axis| covered[axis] + random.below(most));
    (size, padding)
}

#[test]
fn convolutions_of_random_shapes() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let kernel = [random.pick(&[1, 2, 3, 3, 5]), random.pick(&[1, 2, 3, 3, 4, 7])];
        let dilation = [random.pick(&[1, 1, 1, 2]), random.pick(&[1, 1, 1, 3])];
        let (size, padding) = image(&mut random, kernel, dilation, 9);
        let groups = random.pick(&[1, 1, 2, 3]);
        let (inputs, outputs) = (random.pick(&[1, 2, 5, 17]), random.pick(&[1, 3, 8, 20]));
        let options = Conv2dOptions {
            stride: [1 + random.below(3), 1 + random.below(2)],
            padding,
            dilation,
            groups,
            ..Conv2dOptions::default()
        };
        let x = [1 + random.below(3), size[0], size[1], inputs * groups];
        let weight = [outputs * groups, inputs, kernel[0], kernel[1]];
        for case in convolution(&mut random, &x, &weight, options) {
            check(&format!("seed {seed}"), &case, false);
        }
    }
}

/// The nearest numbers of `bf16`.
fn rounded(array: &Array) -> Array {
    let ty = Type::new(DType::BF16, &array.ty.shape);
    let upper = |x: f64| {
        let bits = (x as f32).to_bits();
        let even = bits >> 16 & 1;
        f64::from(f32::from_bits((bits + 0x7fff + even) & 0xffff_0000))
    };
    Array::new(ty, array.data.iter().map(|&x| upper(x)).collect())
}

#[test]
fn convolutions_of_bf16_add_up_in_f32() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let kernel = [random.pick(&[1, 3, 5]), random.pick(&[2, 3, 4])];
        let (size, padding) = image(&mut random, kernel, [1, 1], 9);
        let groups = random.pick(&[1, 1, 2]);
        let (inputs, outputs) = (random.pick(&[1, 5, 17, 40]), random.pick(&[3, 20, 33]));
        let options = Conv2dOptions {
            stride: [1 + random.below(2), 1 + random.below(2)],
            padding,
            groups,
            ..Conv2dOptions::default()
        };
        let x = [1 + random.below(3), size[0], size[1], inputs * groups];
        let weight = [outputs * groups, inputs, kernel[0], kernel[1]];
        for wide in convolution(&mut random, &x, &weight, options) {
            let case = of_bf16(&wide);
            check(&format!("seed {seed}"), &case, false);
        }
        let channels = random.pick(&[1, 3, 17, 40, 72]);
        let depthwise = Conv2dOptions {
            groups: channels,
            ..options
        };
        let x = [x[0], x[1], x[2], channels];
        for wide in convolution(&mut random, &x, &[channels, 1, kernel[0], kernel[1]], depthwise) {
            check(&format!("depthwise, seed {seed}"), &of_bf16(&wide), false);
        }
    }
}

/// The same convolution of factors that are rounded, and its sums.
fn of_bf16(case: &Case) -> Case {
    let inputs: Vec<Array> = case.inputs.iter().map(rounded).collect();
    let any: &dyn std::any::Any = &*case.op;
    let (op, sizes): (Arc<dyn Op>, Conv2dSizes) = if let Some(op) = any.downcast_ref::<Conv2d>() {
        let op = Conv2d {
            options: widened(op.options),
        };
        (Arc::new(op), op.sizes(&types(&inputs)).unwrap())
    } else if let Some(op) = any.downcast_ref::<Conv2dGradInput>() {
        let op = Conv2dGradInput {
            options: widened(op.options),
            ..*op
        };
        (Arc::new(op), op.sizes(&types(&inputs)).unwrap().0)
    } else {
        let op = any.downcast_ref::<Conv2dGradWeight>().unwrap();
        let op = Conv2dGradWeight {
            options: widened(op.options),
            ..*op
        };
        (Arc::new(op), op.sizes(&types(&inputs)).unwrap().0)
    };
    // Which of image, weight and result the two factors and the sum are.
    let roles = match op.name() {
        "conv2d" => [0, 1, 2],
        "conv2d_grad_input" => [2, 1, 0],
        _ => [0, 2, 1],
    };
    let mut plain = vec![0.0f32; case.plain.len()];
    for_each_product(&sizes, |product| {
        let [a, b, y] = roles.map(|role| product[role]);
        plain[y] += inputs[0].data[a] as f32 * inputs[1].data[b] as f32;
    });
    Case {
        op,
        inputs,
        plain,
        floor: case.floor,
        times: 2.0,
    }
}

fn widened(options: Conv2dOptions) -> Conv2dOptions {
    Conv2dOptions {
        widens: true,
        ..options
    }
}

fn types(arrays: &[Array]) -> Vec<Type> {
    arrays.iter().map(|array| array.ty.clone()).collect()
}

#[test]
fn depthwise_convolutions_of_random_shapes() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let kernel = [random.pick(&[1, 3, 3, 5]), random.pick(&[1, 2, 3, 3, 4, 7])];
        let dilation = [random.pick(&[1, 1, 1, 2]), random.pick(&[1, 1, 1, 3])];
        let (size, padding) = image(&mut random, kernel, dilation, 14);
        let channels = random.pick(&[1, 3, 8, 24, 70, 151]);
        let options = Conv2dOptions {
            stride: [1 + random.below(2), 1 + random.below(3)],
            padding,
            dilation,
            groups: channels,
            ..Conv2dOptions::default()
        };
        let x = [1 + random.below(3), size[0], size[1], channels];
        for case in convolution(&mut random, &x, &[channels, 1, kernel[0], kernel[1]], options) {
            // A single channel is a product of windows, which has bits of its own by tiles.
            check(&format!("seed {seed}"), &case, channels > 1);
        }
    }
}

#[test]
fn convolutions_that_are_cut_into_tasks() {
    let mut random = Random::new(1);
    let padded = Conv2dOptions {
        padding: [1; 4],
        ..Conv2dOptions::default()
    };
    let deep = Conv2dOptions { groups: 96, ..padded };
    for (x, weight, options) in [
        // More taps than are written at once, and slices of channels in the gradient of the weight.
        ([1, 9, 15, 400], [5, 400, 3, 3], padded),
        ([1, 5, 6, 700], [600, 700, 2, 2], padded),
        ([2, 20, 33, 96], [96, 1, 3, 3], deep),
    ] {
        for case in convolution(&mut random, &x, &weight, options) {
            check("large", &case, options.groups > 1);
        }
    }
}

#[test]
fn convolutions_of_many_images_read_by_a_table() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let kernel = [random.pick(&[1, 3, 3, 5]), random.pick(&[2, 3, 3])];
        let most = random.pick(&[3, 6, 16]);
        let (size, padding) = image(&mut random, kernel, [1, 1], most);
        let groups = random.pick(&[1, 1, 2]);
        let (inputs, outputs) = (random.pick(&[2, 6, 16]), random.pick(&[3, 16, 40]));
        let options = Conv2dOptions {
            stride: [1 + random.below(2), 1 + random.below(2)],
            padding,
            groups,
            ..Conv2dOptions::default()
        };
        // The last block has fewer images than others, where these are small.
        let x = [17 + random.below(30), size[0], size[1], inputs * groups];
        let weight = [outputs * groups, inputs, kernel[0], kernel[1]];
        for case in convolution(&mut random, &x, &weight, options) {
            check(&format!("seed {seed}"), &case, false);
            check(&format!("bf16, seed {seed}"), &of_bf16(&case), false);
        }
    }
}
