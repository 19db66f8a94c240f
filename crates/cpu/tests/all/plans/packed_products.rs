//! Products large enough to be packed: their errors, their bits, and numbers that are not finite.

use std::collections::HashMap;

use lessen_compile::dump_memory;
use lessen_cpu::simd::{CpuSet, Feature};
use lessen_graph::ops::{AddMatMul, MatMul};
use lessen_graph::{DType, Graph, Tensor, Trace};

use crate::plans::runner::{Options, compile, run_once};
use crate::random::Random;

/// Rows, inner extent and columns: around strips of 16, panels and steps of 32, one tile of 512 rows, and blocks of
/// `k`, and parts of it.
const SHAPES: [(usize, usize, usize); 14] = [
    (32, 1024, 32),
    (333, 99, 37),
    (47, 384, 65),
    (100, 384, 96),
    (304, 130, 333),
    (512, 70, 50),
    (513, 64, 96),
    (700, 1025, 64),
    (1100, 33, 130),
    (2100, 90, 70),
    (64, 2100, 64),
    (40, 700, 540),
    (33, 4500, 20),
    (270, 2500, 260),
];

/// How the factors of a product lie.
#[derive(Clone, Copy, Debug)]
enum FactorLayout {
    /// Rows times a matrix.
    Rows,
    /// Rows times the transpose of a matrix.
    Transposed,
    /// Rows that lie as columns of a matrix.
    Columns,
    /// The product of two matrices with shared rows, as of a gradient of a weight.
    Gradient,
}

const FORMS: [FactorLayout; 4] = [
    FactorLayout::Rows,
    FactorLayout::Transposed,
    FactorLayout::Columns,
    FactorLayout::Gradient,
];

/// The type of the factors.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Factor {
    F32,
    Bf16,
}

const FACTORS: [Factor; 2] = [Factor::F32, Factor::Bf16];

/// The product of factors in `bf16`, or in `f32`.
fn product(factor: Factor, a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor {
    let op = MatMul {
        transpose_a,
        transpose_b,
        widens: factor == Factor::Bf16,
    };
    let narrow = |x: Tensor| match factor {
        Factor::F32 => x,
        Factor::Bf16 => x.cast(DType::BF16),
    };
    a.trace().apply1(op, &[narrow(a), narrow(b)])
}

fn graph(factor: Factor, form: FactorLayout, (m, k, n): (usize, usize, usize)) -> Graph {
    let trace = Trace::new();
    let input = |name, shape: [usize; 2]| trace.input(name, DType::F32, &shape);
    let y = match form {
        FactorLayout::Rows => product(factor, input("a", [m, k]), input("b", [k, n]), false, false),
        FactorLayout::Transposed => product(factor, input("a", [m, k]), input("b", [n, k]), false, true),
        FactorLayout::Columns => {
            let a = input("a", [k, m]).transpose(0, 1) * 1.0;
            product(factor, a, input("b", [k, n]), false, false)
        }
        FactorLayout::Gradient => product(factor, input("a", [k, m]), input("b", [k, n]), true, false),
    };
    trace.output("y", y);
    trace.finish()
}

/// Factors as `a[i][p]` and `b[p][j]`.
struct Factors {
    factor: Factor,
    sizes: (usize, usize, usize),
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Factors {
    /// Numbers that the factors hold exactly.
    fn random(factor: Factor, seed: u64, sizes: (usize, usize, usize)) -> Factors {
        let mut random = Random::new(seed);
        let (m, k, n) = sizes;
        let held = |x: Vec<f32>| match factor {
            Factor::F32 => x,
            Factor::Bf16 => (x.into_iter())
                .map(|x| f32::from_bits(x.to_bits() & 0xffff_0000))
                .collect(),
        };
        Factors {
            factor,
            sizes,
            a: held(random.vec(m * k, 3.0)),
            b: held(random.vec(k * n, 0.2)),
        }
    }

    fn run(&self, form: FactorLayout, threads: usize) -> Vec<f32> {
        let (m, k, n) = self.sizes;
        let array = |rows: usize, columns: usize, x: &[f32], transposed: bool| {
            let at = |i: usize| {
                if transposed {
                    x[i % rows * columns + i / rows]
                } else {
                    x[i]
                }
            };
            let shape = if transposed { [columns, rows] } else { [rows, columns] };
            let data = (0..x.len()).map(|i| f64::from(at(i))).collect();
            lessen_graph::Array::new(lessen_graph::Type::f32(&shape), data)
        };
        let a = array(
            m,
            k,
            &self.a,
            matches!(form, FactorLayout::Columns | FactorLayout::Gradient),
        );
        let b = array(k, n, &self.b, matches!(form, FactorLayout::Transposed));
        let inputs = HashMap::from([("a".to_string(), a), ("b".to_string(), b)]);
        let options = Options {
            threads,
            ..Options::default()
        };
        run_once(&graph(self.factor, form, self.sizes), &options, &inputs).1["y"].clone()
    }

    /// An element in `f64` and in plain `f32`, and the sum of the absolute terms.
    fn element(&self, i: usize, j: usize) -> (f64, f32, f64) {
        let (_, k, n) = self.sizes;
        let (mut exact, mut plain, mut size) = (0f64, 0f32, 0f64);
        for p in 0..k {
            let (x, y) = (self.a[i * k + p], self.b[p * n + j]);
            exact += f64::from(x) * f64::from(y);
            plain = x.mul_add(y, plain);
            size += (f64::from(x) * f64::from(y)).abs();
        }
        (exact, plain, size)
    }
}

/// Shapes and factors, with a seed each.
fn cases() -> impl Iterator<Item = (u64, ((usize, usize, usize), Factor))> {
    let all = SHAPES
        .into_iter()
        .flat_map(|sizes| FACTORS.map(|factor| (sizes, factor)));
    (0..).zip(all)
}

#[test]
fn errors_are_at_most_twice_those_of_plain_loops() {
    for (seed, (sizes, factor)) in cases() {
        let factors = Factors::random(factor, seed, sizes);
        let (m, _, n) = sizes;
        for form in FORMS {
            let y = factors.run(form, 2);
            let (mut ours, mut plain) = (0f64, 0f64);
            for i in (0..m).step_by(1 + m / 60).chain([m - 1]) {
                for j in (0..n).step_by(1 + n / 60).chain([n - 1]) {
                    let (exact, p, size) = factors.element(i, j);
                    ours = ours.max((f64::from(y[i * n + j]) - exact).abs() / size);
                    plain = plain.max((f64::from(p) - exact).abs() / size);
                }
            }
            assert!(
                ours <= 2.0 * plain + 6e-8,
                "{form:?} of {factor:?}, {sizes:?}, seed {seed}: error {ours:.2e}, plain {plain:.2e}"
            );
        }
    }
}

/// Extents that are no multiples of those of any vector, register tile, panel or block, and single rows and columns.
const ODD: [(usize, usize, usize); 9] = [
    (1, 1, 1),
    (1, 70, 65),
    (67, 1, 33),
    (129, 131, 1),
    (61, 300, 79),
    (130, 1030, 161),
    (530, 131, 261),
    (1031, 515, 97),
    (37, 4300, 21),
];

#[test]
fn all_instructions_compute_odd_products_with_the_errors_of_plain_loops() {
    for (seed, sizes) in (0..).zip(ODD) {
        let factors = Factors::random(Factor::F32, seed, sizes);
        let (m, _, n) = sizes;
        let elements: Vec<_> = (0..m * n).map(|i| factors.element(i / n, i % n)).collect();
        let error = |y: f64, (exact, _, size): &(f64, f32, f64)| (y - exact).abs() / size;
        let plain = elements.iter().map(|x| error(x.1.into(), x)).fold(0.0, f64::max);
        for form in FORMS {
            for set in CpuSet::detect().subsets() {
                let y = set.on_this_thread(|| factors.run(form, 1));
                let ours = y.iter().zip(&elements).map(|(&y, x)| error(y.into(), x));
                let ours = ours.fold(0.0, f64::max);
                assert!(
                    ours <= 2.0 * plain + 6e-8,
                    "{form:?} of {sizes:?} by {set}: error {ours:.2e}, plain {plain:.2e}"
                );
            }
            let bits = |threads| {
                factors
                    .run(form, threads)
                    .into_iter()
                    .map(f32::to_bits)
                    .collect::<Vec<_>>()
            };
            assert!(bits(1) == bits(2), "{form:?} of {sizes:?} on two threads");
        }
    }
}

/// A gradient of a weight, of all rows at once or of some and then of the others.
fn gradient(factor: Factor, (m, k, n): (usize, usize, usize), first: Option<usize>) -> Graph {
    let trace = Trace::new();
    let widens = factor == Factor::Bf16;
    let dtype = if widens { DType::BF16 } else { DType::F32 };
    let op = MatMul {
        transpose_a: true,
        transpose_b: false,
        widens,
    };
    let a = trace.input("a", DType::F32, &[k, m]).cast(dtype);
    let b = trace.input("b", DType::F32, &[k, n]).cast(dtype);
    let y = match first {
        None => trace.apply1(op, &[a, b]),
        Some(first) => {
            let rest = [a, b].map(|x| x.slice(0, first, k - first));
            let sum = trace.apply1(op, &[a.slice(0, 0, first), b.slice(0, 0, first)]);
            trace.apply1(AddMatMul { widens }, &[rest[0], rest[1], sum])
        }
    };
    trace.output("y", y);
    trace.finish()
}

#[test]
fn a_sum_over_rows_has_the_same_bits_in_slices() {
    let sizes = (270, 2500, 260);
    let (m, k, n) = sizes;
    for (seed, factor) in (0..).zip(FACTORS) {
        let mut random = Random::new(seed);
        let mut input = |shape: [usize; 2]| {
            let data = random.vec(shape[0] * shape[1], 1.0).into_iter().map(f64::from);
            lessen_graph::Array::new(lessen_graph::Type::f32(&shape), data.collect())
        };
        let inputs = HashMap::from([("a".to_string(), input([k, m])), ("b".to_string(), input([k, n]))]);
        let run = |first, threads| {
            let options = Options {
                threads,
                ..Options::default()
            };
            let y = run_once(&gradient(factor, sizes, first), &options, &inputs).1["y"].clone();
            y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        let whole = run(None, 2);
        for first in [1024, 2048] {
            assert!(whole == run(Some(first), 2), "{factor:?}, slices at {first}");
        }
        assert!(whole == run(Some(1024), 1), "{factor:?}, one thread");
    }
}

#[test]
fn bits_depend_on_neither_threads_nor_other_rows() {
    let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
    for (seed, (sizes, factor)) in cases() {
        let factors = Factors::random(factor, seed, sizes);
        for form in FORMS {
            let one = bits(&factors.run(form, 1));
            for threads in [2, 3, 5] {
                assert!(
                    one == bits(&factors.run(form, threads)),
                    "{form:?} of {factor:?}, {sizes:?}, {threads} threads"
                );
            }
        }
    }
    if !CpuSet::detect().has(Feature::Amx) {
        return;
    }
    let (k, n) = (100, 70);
    for factor in FACTORS {
        let all = Factors::random(factor, 7, (2100, k, n));
        let whole = bits(&all.run(FactorLayout::Rows, 2));
        for m in [150, 177, 192, 500, 513, 1000] {
            let some = Factors {
                factor,
                sizes: (m, k, n),
                a: all.a[..m * k].to_vec(),
                b: all.b.clone(),
            };
            assert!(
                bits(&some.run(FactorLayout::Rows, 2)) == whole[..m * n],
                "{m} rows of {factor:?}"
            );
        }
    }
}

#[test]
fn numbers_that_are_not_finite_go_where_plain_loops_take_them() {
    for sizes in [(100, 164, 96), (600, 64, 70)] {
        let (m, k, n) = sizes;
        for special in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, -3.4e38] {
            for form in FORMS {
                let mut factors = Factors::random(Factor::F32, 3, sizes);
                factors.a[5 * k + 3] = special;
                factors.b[9 * n + 4] = special;
                let y = factors.run(form, 2);
                for (i, j) in [(5, 0), (5, 4), (0, 4), (5, 60), (90, 4), (0, 0), (m - 1, n - 1), (6, 5)] {
                    let ((exact, plain, size), y) = (factors.element(i, j), y[i * n + j]);
                    let same = plain.is_nan() == y.is_nan() && (plain.is_nan() || plain.is_finite() || plain == y);
                    let near = !plain.is_finite() || (f64::from(y) - exact).abs() <= 1e-6 * size;
                    assert!(
                        same && near,
                        "{special} in {form:?} of {sizes:?} at {i}, {j}: {y}, not {plain}"
                    );
                }
            }
        }
    }
}

#[test]
fn plans_do_not_depend_on_the_instructions() {
    for sizes in [(100, 164, 96), (3000, 64, 70)] {
        for (form, factor) in FORMS.into_iter().flat_map(|form| FACTORS.map(|factor| (form, factor))) {
            let plan = || dump_memory(&compile(&graph(factor, form, sizes), &Options::default()).unwrap());
            let here = plan();
            for set in CpuSet::detect().subsets() {
                assert_eq!(set.on_this_thread(plan), here, "{set}");
            }
        }
    }
}
