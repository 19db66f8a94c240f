//! Updates of parameters: their cases for the tests of every operation, three steps of each by PyTorch's formula, and
//! the 8-bit codes of moments.

use lessen_graph::ops::block_codes::{BLOCK, Codebook, blocks, dequantize, quantize};
use lessen_graph::ops::*;
use lessen_graph::{Array, DType, Op, Type, evaluate_op};

use crate::cases::Smooth::{No, Once, Twice};
use crate::cases::{Case, case};
use crate::check::assert_near;
use crate::prng::Prng;

const ADAM: Adam = Adam {
    beta1: 0.9,
    beta2: 0.99,
    eps: 1e-8,
    weight_decay: 0.1,
};
const ADAGRAD: Adagrad = Adagrad {
    lr_decay: 0.5,
    initial: 0.0,
    eps: 1e-10,
    weight_decay: 0.1,
};
const ADADELTA: Adadelta = Adadelta {
    rho: 0.9,
    eps: 1e-6,
    weight_decay: 0.1,
};
const RMSPROP: RmsProp = RmsProp {
    alpha: 0.9,
    eps: 1e-8,
    momentum: 0.0,
    weight_decay: 0.1,
};
const LION: Lion = Lion {
    beta1: 0.9,
    beta2: 0.99,
    weight_decay: 0.1,
};
const ADAMW_8BIT: AdamW8bit = AdamW8bit {
    rule: AdamW {
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-8,
        weight_decay: 0.1,
    },
};

/// Codes of any value.
fn codes(r: &mut Prng, shape: &[usize]) -> Array {
    Array::from_fn(Type::new(DType::U8, shape), |_| r.below(256) as f64)
}

/// The updates on small random inputs, but for AdamW and SGD.
pub fn cases(r: &mut Prng) -> Vec<Case> {
    let shape = [3, 5];
    let (lr, t) = (&Array::scalar(0.05), &Array::scalar(3.0));
    let (p, g, m) = (&r.signed(&shape), &r.normal(&shape), &r.normal(&shape));
    let (v, u) = (&r.floats(&shape, 0.1, 0.5), &r.floats(&shape, 0.1, 0.5));
    let adadelta = Adadelta { eps: 1e-2, ..ADADELTA };
    let with_momentum = RmsProp {
        momentum: 0.5,
        ..RMSPROP
    };
    let mut all = vec![
        case(ADAM, &[p, g, m, v, lr, t], Twice),
        case(
            Adagrad {
                initial: 0.2,
                ..ADAGRAD
            },
            &[p, g, v, lr, t],
            Twice,
        ),
        case(adadelta, &[p, g, v, u, lr], Twice),
        case(RMSPROP, &[p, g, v, lr], Twice),
        case(with_momentum, &[p, g, v, m, lr], Twice),
        case(LION, &[p, g, m, lr], Twice),
    ];
    for shape in [&[2, 128][..], &[3, 87], &[2]] {
        let (p, g, scales) = (&r.signed(shape), &r.signed(shape), &[blocks(shape.iter().product())]);
        let [m, v] = [codes(r, shape), codes(r, shape)];
        let [ms, vs] = [0, 1].map(|_| r.floats(scales, 0.5, 2.0));
        let smooth = if shape.len() == 1 { Once } else { No };
        all.push(case(ADAMW_8BIT, &[p, g, &m, &ms, &v, &vs, lr, t], smooth));
    }
    all
}

/// Runs three steps from the parameter 1 and moments of zeros, with the gradients 0.5, -0.25 and 2, and compares
/// parameter and moments with the parameter and moments of `torch.optim` in `float64`.
fn three_steps<const N: usize>(op: impl Op + Copy, lr: f64, counts: bool, expected: [[f64; N]; 3]) {
    let one = |x: f64| Array::f32(&[1], vec![x]);
    let mut values = vec![one(1.0)];
    values.resize(N, one(0.0));
    for (step, (gradient, expected)) in [0.5, -0.25, 2.0].into_iter().zip(expected).enumerate() {
        values.insert(1, one(gradient));
        values.push(Array::scalar(lr));
        values.extend(counts.then(|| Array::scalar((step + 1) as f64)));
        values = evaluate_op(&op, &values.iter().collect::<Vec<_>>()).unwrap();
        for (found, expected) in values.iter().zip(expected) {
            assert_near(&format!("{op:?}, step {}", step + 1), found, &one(expected), 1e-14);
        }
    }
}

#[test]
fn adam_takes_three_steps_as_torch() {
    let expected = [
        [0.9000000016666666, 0.06, 0.0036],
        [0.8543516770478369, 0.03800000001666666, 0.0038199999994666697],
        [0.7833512466549544, 0.24274351678547834, 0.047272198386470836],
    ];
    three_steps(ADAM, 0.1, true, expected);
}

#[test]
fn adagrad_takes_three_steps_as_torch() {
    let expected = [
        [0.9000000000166667, 0.36],
        [0.9171775100510888, 0.38559999999946665],
        [0.8692450934701305, 4.760883149869337],
    ];
    three_steps(ADAGRAD, 0.1, true, expected);
    let expected = [
        [0.9353003360849137, 0.36],
        [0.9463919570985084, 0.3844828503825598],
        [0.9007786369174189, 4.771996210586571],
    ];
    let from_half = Adagrad {
        initial: 0.5,
        ..ADAGRAD
    };
    three_steps(from_half, 0.1, true, expected);
}

#[test]
fn adadelta_takes_three_steps_as_torch() {
    let expected = [
        [0.9984188831297198, 0.036, 9.999722229938057e-7],
        [0.9989892353801239, 0.03465474585054139, 1.0300956765108105e-6],
        [0.9968120888788309, 0.47214682017309745, 2.823072864096581e-6],
    ];
    three_steps(ADADELTA, 0.5, false, expected);
}

#[test]
fn rmsprop_takes_three_steps_as_torch() {
    let expected = [
        [0.6837722506498278, 0.036],
        [0.7798989842495636, 0.03569868323750958],
        [0.4748175459973038, 0.46393301670937453],
    ];
    three_steps(RMSPROP, 0.1, false, expected);
    let expected = [
        [0.6837722506498278, 0.036, 3.1622774935017217],
        [0.6217851095744775, 0.03569868323750958, 0.6198714107535029],
        [0.2858725859482024, 0.45738683601922614, 3.359125236262751],
    ];
    let with_momentum = RmsProp {
        momentum: 0.5,
        ..RMSPROP
    };
    three_steps(with_momentum, 0.1, false, expected);
}

#[test]
fn lion_takes_three_steps_by_its_algorithm() {
    // The signs in the three updates are the signs of 0.05, 0.9 * 0.005 - 0.025 and 0.9 * 0.00245 + 0.2.
    let expected = [
        [0.99 - 0.1, 0.005],
        [0.89 * 0.99 + 0.1, 0.99 * 0.005 - 0.0025],
        [0.9811 * 0.99 - 0.1, 0.99 * 0.00245 + 0.02],
    ];
    three_steps(LION, 0.1, false, expected);
}

#[test]
fn lion_stands_still_where_gradients_are_zero_and_keeps_nan() {
    let vector = |data: &[f64]| Array::f32(&[2], data.to_vec());
    let (p, g, m, lr) = (
        &vector(&[1.0, 1.0]),
        &vector(&[0.0, f64::NAN]),
        &vector(&[0.0; 2]),
        &Array::scalar(0.1),
    );
    let found = evaluate_op(&LION, &[p, g, m, lr]).unwrap();
    assert_near("parameter", &found[0], &vector(&[0.99, f64::NAN]), 0.0);
    assert_near("moment", &found[1], &vector(&[0.0, f64::NAN]), 0.0);
}

#[test]
fn codes_stand_for_values_of_seven_decades() {
    for (book, least, largest_step) in [
        (Codebook::Signed, 0.55e-6, 0.9 / 64.0),
        (Codebook::Unsigned, 0.325e-6, 0.9 / 128.0),
    ] {
        let values = book.values();
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "{book:?}");
        assert!(values.iter().all(|&v| v == f64::from(v as f32)));
        let smallest = values.iter().copied().filter(|&v| v > 0.0).fold(1.0, f64::min);
        assert!((smallest - least).abs() < 1e-13, "{book:?}: {smallest}");
        let steps = values.windows(2).map(|pair| pair[1] - pair[0]);
        assert!((steps.fold(0.0, f64::max) - largest_step).abs() < 1e-7, "{book:?}");
        assert!(values.contains(&0.0) && values[255] == 1.0);
        let negative = values.iter().filter(|&&v| v < 0.0);
        let mirrored = negative.clone().all(|&v| values.contains(&-v));
        assert!(mirrored && negative.count() == if book == Codebook::Signed { 127 } else { 0 });
    }
}

#[test]
fn quantized_numbers_are_the_nearest_values_of_their_blocks() {
    for seed in 0..20 {
        let mut r = Prng::new(seed);
        let n = [1, 255, 256, 257, 1000][seed as usize % 5];
        for (book, low, most) in [
            (Codebook::Signed, -1.0, 0.45 / 64.0),
            (Codebook::Unsigned, 0.0, 0.45 / 128.0),
        ] {
            let size = 10f64.powi(r.below(40) as i32 - 25);
            // Powers, so that all decades are met.
            let numbers: Vec<f64> = (0..n).map(|_| size * r.uniform(low, 1.0).powi(9)).collect();
            let (codes, scales) = quantize(book, &numbers);
            assert_eq!((codes.len(), scales.len()), (n, blocks(n)));
            let values = book.values();
            for ((i, x), back) in numbers.iter().enumerate().zip(dequantize(book, &codes, &scales)) {
                let scale = scales[i / BLOCK];
                let (x, error) = (x / scale, (x - back).abs() / scale);
                let nearest = values.iter().map(|v| (v - x).abs()).fold(f64::INFINITY, f64::min);
                assert!(
                    error <= nearest + 1e-7 * x.abs() && error <= most + 1e-7,
                    "seed {seed}, {book:?}: {x}, the error is {error}"
                );
            }
            let largest = |block: &[f64]| block.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            assert!(numbers.chunks(BLOCK).map(largest).eq(scales), "seed {seed}");
        }
    }
}

#[test]
fn blocks_of_zeros_stay_zeros_and_what_is_not_finite_stays_so() {
    for book in [Codebook::Signed, Codebook::Unsigned] {
        let back = |numbers: &[f64]| {
            let (codes, scales) = quantize(book, numbers);
            dequantize(book, &codes, &scales)
        };
        assert_eq!(back(&[0.0; 300]), [0.0; 300]);
        let mut numbers = [0.5; 300];
        numbers[7] = f64::NAN;
        numbers[8] = f64::INFINITY;
        let found = back(&numbers);
        assert!(found[..BLOCK].iter().all(|x| x.is_nan()));
        assert_eq!(found[BLOCK..], numbers[BLOCK..].iter().map(|_| 0.5).collect::<Vec<_>>());
        numbers[7] = 0.0;
        assert!(back(&numbers)[..BLOCK].iter().all(|x| !x.is_finite()));
    }
}

/// Steps of AdamW with 8-bit moments, which begin as zeros.
struct Steps {
    values: Vec<Array>,
    done: u32,
}

impl Steps {
    fn new(p: &[f64]) -> Steps {
        let (codes, scales) = (Type::new(DType::U8, &[p.len()]), Type::f32(&[blocks(p.len())]));
        let zeros = [&codes, &scales, &codes, &scales].map(|ty| Array::full(ty.clone(), 0.0));
        let p = Array::f32(&[p.len()], p.to_vec());
        Steps {
            values: [&[p][..], &zeros].concat(),
            done: 0,
        }
    }

    /// Takes a step; parameter, codes and scales are in `values` then.
    fn step(&mut self, g: &[f64]) {
        self.done += 1;
        let g = Array::f32(&[g.len()], g.to_vec());
        let scalars = [0.1, f64::from(self.done)].map(Array::scalar);
        let inputs: Vec<&Array> = [&self.values[0], &g]
            .into_iter()
            .chain(&self.values[1..])
            .chain(&scalars)
            .collect();
        self.values = evaluate_op(&ADAMW_8BIT, &inputs).unwrap();
    }
}

#[test]
fn adamw_with_8_bit_moments_takes_two_steps_by_hand() {
    let near = |what: &str, found: &Array, expected: &[f64]| {
        let expected = Array::new(found.ty.clone(), expected.to_vec());
        assert_near(what, found, &expected, 1e-8);
    };
    let mut steps = Steps::new(&[1.0, -1.0]);
    steps.step(&[0.5, -0.25]);
    // Moments of zeros: the step is the learning rate, as AdamW's. The moments are (0.05, -0.025) and (0.0025,
    // 0.000625); of their scales, -0.5 is nearest to -(0.1 + 0.9 * 28.5 / 64), and 0.25 to 0.1 + 0.9 * 21.5 / 128.
    near("p", &steps.values[0], &[0.99 - 0.1, -0.99 + 0.1]);
    near("codes of m", &steps.values[1], &[255.0, 35.0]);
    near("scale of m", &steps.values[2], &[0.05]);
    near("codes of v", &steps.values[3], &[255.0, 148.0]);
    near("scale of v", &steps.values[4], &[0.0025]);
    let before = steps.values[0].data.clone();
    steps.step(&[0.5, 0.5]);
    let m = [0.9 * 0.05 + 0.05, 0.9 * -0.50078125 * 0.05 + 0.05];
    let v = [0.99 * 0.0025 + 0.0025, 0.99 * 0.251171875 * 0.0025 + 0.0025];
    let expected = [0, 1].map(|i| before[i] * 0.99 - 0.1 / 0.19 * m[i] / ((v[i] / 0.0199f64).sqrt() + 1e-8));
    near("p", &steps.values[0], &expected);
    near("scale of m", &steps.values[2], &[0.095]);
    near("scale of v", &steps.values[4], &[v[0]]);
}

#[test]
fn a_gradient_that_is_not_finite_breaks_its_element_then_its_block() {
    for wrong in [f64::NAN, f64::INFINITY] {
        let mut steps = Steps::new(&[1.0; 300]);
        let mut g = [0.5; 300];
        steps.step(&g);
        g[3] = wrong;
        steps.step(&g);
        let broken = |steps: &Steps| -> Vec<usize> { (0..300).filter(|&i| steps.values[0].data[i].is_nan()).collect() };
        assert_eq!(broken(&steps), [3]);
        steps.step(&[0.5; 300]);
        assert!(broken(&steps).into_iter().eq(0..BLOCK));
    }
}
