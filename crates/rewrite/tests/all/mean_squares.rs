//! RMSNorms and CRMSNorms of primitive operations: which are recognized, with equal results, and which are left.

use std::collections::HashMap;

use lessen_base::SplitMix64;
use lessen_graph::ops::{CrmsNorm, RmsNorm};
use lessen_graph::{Array, DType, Graph, Tensor, Trace, evaluate_exactly};
use lessen_rewrite::{recognize, recognize_norms};

const WIDTH: usize = 6;
const EPS: f64 = 1e-3;
/// The share of an element in a mean over runs whose last element is left out.
const SHARE: f64 = 1.0 / (WIDTH as f64 + 1.0);

/// A result of `x[2, 6, 6]` and `gamma[6]`. Two extents of `x` are equal, so that operations along either axis fit.
type Written = fn(Tensor, Tensor) -> Tensor;

fn written(way: Written, dtype: DType) -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", dtype, &[2, WIDTH, WIDTH]);
    trace.output("y", way(x, trace.state("gamma", dtype, &[WIDTH])));
    trace.finish()
}

/// The graph after recognition, whose results are checked.
fn recognized(graph: &Graph) -> Graph {
    let new = recognize(graph, &HashMap::new());
    lessen_graph::verify(&new).unwrap();
    let mut random = SplitMix64::new(5);
    let values: HashMap<String, Array> = graph
        .inputs
        .iter()
        .map(|input| {
            let ty = graph.ty(input.value).clone();
            let data = (0..ty.numel()).map(|_| random.below(2000) as f64 / 1000.0 - 0.4);
            let data = data.collect();
            (input.name.clone(), Array::new(ty, data))
        })
        .collect();
    let [expected, found] = [graph, &new].map(|graph| evaluate_exactly(graph, &values).unwrap());
    assert_eq!(expected.len(), found.len());
    for (name, expected) in &expected {
        assert_eq!(expected.ty, found[name].ty, "{name}");
        for (a, b) in expected.data.iter().zip(&found[name].data) {
            assert!((a - b).abs() < 1e-12, "{name}: {a} and {b}");
        }
    }
    new
}

/// The numbers of RMSNorms, CRMSNorms and all nodes.
fn counts(graph: &Graph) -> [usize; 3] {
    let is_rms = graph.nodes.iter().filter(|node| node.op.is::<RmsNorm>());
    let is_crms = graph.nodes.iter().filter(|node| node.op.is::<CrmsNorm>());
    [is_rms.count(), is_crms.count(), graph.nodes.len()]
}

fn squares(x: Tensor) -> Tensor {
    (x * x).sum_last()
}

/// The mean of squares of runs whose last element is left out.
fn compressed(x: Tensor) -> Tensor {
    let sum = x.sum_last();
    (squares(x) + sum * sum) * SHARE
}

#[test]
fn rms_norms_of_primitive_operations_are_recognized() {
    // With the nodes that are left: a row of ones, the norm.
    let ways: [(Written, usize); 7] = [
        (|x, gamma| x * ((x * x).mean_last() + EPS).rsqrt() * gamma, 1),
        (|x, gamma| gamma * (x / (EPS + (x * x).mean_last()).sqrt()), 1),
        (|x, _| x / ((x * x).mean_last() + EPS).sqrt(), 2),
        (
            |x, gamma| {
                let mean = x.pow(x.scalar_like(2.0)).mean_axes(&[2]).reshape(&[2, WIDTH, 1]);
                (mean + EPS).sqrt().recip() * x * gamma
            },
            1,
        ),
        (
            // The reciprocal as a quotient; the mean as a product.
            |x, gamma| x * (1.0 / (squares(x) * (1.0 / WIDTH as f64) + EPS).sqrt()) * gamma,
            1,
        ),
        (
            |x, gamma| {
                let mean = (x * x).mean_last() + EPS;
                x * mean.pow(mean.scalar_like(-0.5)) * gamma
            },
            1,
        ),
        (
            // One norm of another.
            |x, gamma| {
                let y = x / ((x * x).mean_last() + EPS).sqrt() * gamma;
                y / ((y * y).mean_last() + EPS).sqrt() * gamma
            },
            2,
        ),
    ];
    for (i, (way, left)) in ways.into_iter().enumerate() {
        let new = recognized(&written(way, DType::F64));
        let norms = if i == 6 { 2 } else { 1 };
        assert_eq!(counts(&new), [norms, 0, left], "way {i}: {:?}", new.nodes);
    }
}

#[test]
fn crms_norms_of_primitive_operations_are_recognized() {
    let ways: [(Written, usize); 5] = [
        (|x, _| x / (compressed(x) + EPS).sqrt(), 2),
        (|x, gamma| (compressed(x) + EPS).rsqrt() * x * gamma, 1),
        (
            |x, _| {
                let sum = x.sum_axes(&[2]);
                let all = sum.pow(sum.scalar_like(2.0)) + (x * x).sum_axes(&[2]);
                let mean = all.reshape(&[2, WIDTH, 1]) / (WIDTH as f64 + 1.0);
                x * (mean + EPS).sqrt().recip()
            },
            2,
        ),
        (
            // The square moved after the product.
            |x, _| {
                let sum = x.sum_axes(&[2]);
                let squared = (sum * sum).reshape(&[2, WIDTH, 1]);
                x / ((squares(x) + squared) * SHARE + EPS).sqrt()
            },
            2,
        ),
        (
            // A value that is read elsewhere stays, too; only a sum must not be read elsewhere.
            |x, _| {
                let root = (compressed(x) + EPS).sqrt();
                x / root + root
            },
            0,
        ),
    ];
    for (i, (way, left)) in ways.into_iter().enumerate() {
        let new = recognized(&written(way, DType::F64));
        let [rms, crms, nodes] = counts(&new);
        assert_eq!([rms, crms], [0, 1], "way {i}: {:?}", new.nodes);
        assert!(left == 0 || nodes == left, "way {i}: {:?}", new.nodes);
    }
}

#[test]
fn near_misses_of_mean_square_norms_are_left() {
    let ways: [Written; 18] = [
        // Means and sums over another axis, of all elements, of two axes.
        |x, gamma| x * ((x * x).mean_axes(&[1]).reshape(&[2, 1, WIDTH]) + EPS).rsqrt() * gamma,
        |x, gamma| x * ((x * x).mean_axes(&[1, 2]).reshape(&[2, 1, 1]) + EPS).rsqrt() * gamma,
        |x, _| {
            let sum = x.sum_axes(&[1]).reshape(&[2, WIDTH, 1]);
            x / ((squares(x) + sum * sum) * SHARE + EPS).sqrt()
        },
        // Means without their axis, which are aligned with elements instead of runs.
        |x, _| {
            let root = ((x * x).mean_axes(&[2]) + EPS).sqrt();
            x / root.reshape(&[2, 1, WIDTH])
        },
        |x, _| {
            let y = x.slice(0, 0, 1).reshape(&[WIDTH, WIDTH]);
            y / ((y * y).mean_axes(&[1]) + EPS).sqrt()
        },
        // The constant added before the mean, after the root, to the result.
        |x, _| x / ((squares(x) + EPS) / WIDTH as f64).sqrt(),
        |x, _| x / ((x * x).mean_last().sqrt() + EPS),
        |x, _| {
            let sum = x.sum_last();
            x / ((squares(x) + sum * sum + EPS) * SHARE).sqrt()
        },
        |x, _| x / (compressed(x).sqrt() + EPS),
        // A number that differs between positions.
        |x, gamma| x / ((x * x).mean_last() + gamma * gamma).sqrt(),
        // Another extent.
        |x, _| x / (squares(x) * SHARE + EPS).sqrt(),
        |x, _| {
            let sum = x.sum_last();
            x / ((squares(x) + sum * sum) / WIDTH as f64 + EPS).sqrt()
        },
        // A sum that is read elsewhere, or twice in place of the squares, or of another value.
        |x, _| {
            let sum = x.sum_last();
            x / ((squares(x) + sum * sum) * SHARE + EPS).sqrt() + sum
        },
        |x, _| {
            let sum = x.sum_axes(&[2]);
            let moved = sum.reshape(&[2, WIDTH, 1]);
            let squared = (sum * sum).reshape(&[2, WIDTH, 1]);
            x / ((squares(x) + squared) * SHARE + EPS).sqrt() + moved
        },
        |x, _| {
            let sum = x.sum_last();
            x / ((sum * sum + sum * sum) * SHARE + EPS).sqrt()
        },
        |x, gamma| {
            let sum = (x * gamma).sum_last();
            x / ((squares(x) + sum * sum) * SHARE + EPS).sqrt()
        },
        // The root of another value; the root times the value.
        |x, gamma| (x * gamma) / ((x * x).mean_last() + EPS).sqrt(),
        |x, _| x * ((x * x).mean_last() + EPS).sqrt(),
    ];
    for (i, way) in ways.into_iter().enumerate() {
        let graph = written(way, DType::F64);
        let new = recognized(&graph);
        assert_eq!(counts(&new), [0, 0, graph.nodes.len()], "way {i}: {:?}", new.nodes);
    }
}

#[test]
fn casts_in_between_do_not_matter_unless_they_round() {
    let wide: Written = |x, gamma| {
        // Computed twice.
        let wide = || x.cast(DType::F64);
        (wide() * ((wide() * wide()).mean_last() + EPS).rsqrt()) * gamma.cast(DType::F64)
    };
    assert_eq!(counts(&recognized(&written(wide, DType::F32)))[0], 1);
    let rounded: Written = |x, _| {
        let mean = (x * x).mean_last().cast(DType::F32).cast(DType::F64);
        x * (mean + EPS).rsqrt()
    };
    assert_eq!(counts(&recognized(&written(rounded, DType::F64)))[0], 0);
    let whole: Written = |x, _| {
        let y = x.cast(DType::F32).cast(DType::F64);
        x * ((y * y).mean_last() + EPS).rsqrt()
    };
    assert_eq!(counts(&recognized(&written(whole, DType::F64)))[0], 0);
}

#[test]
fn conversions_do_not_take_mean_squares_for_norms() {
    let way: Written = |x, gamma| x * ((x * x).mean_last() + EPS).rsqrt() * gamma + x / (compressed(x) + EPS).sqrt();
    let graph = written(way, DType::F64);
    let (new, _) = recognize_norms(&graph);
    assert_eq!(counts(&new), [0, 0, graph.nodes.len()]);
    assert_eq!(counts(&recognized(&graph))[..2], [1, 1]);
}

#[test]
fn means_along_another_axis_of_equal_extent_are_no_layer_norm() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F64, &[6, 6]);
    let centred = x - x.mean_axes(&[1]);
    let deviation = ((centred * centred).mean_axes(&[1]) + 1e-3).sqrt();
    trace.output("y", centred / deviation);
    let (new, _) = recognize_norms(&trace.finish());
    assert!(new.nodes.iter().all(|node| node.op.name() != "layer_norm"));
}
