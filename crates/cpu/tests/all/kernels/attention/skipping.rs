//! ReLU attention leaves tiles out where their weights are zeros, and gives the results of the unfused graph.

use lessen_cpu::{Device, Executable, TileCounts};
use lessen_graph::Graph;

use super::case::{Arrays, Case};
use crate::plans::runner::{self, Options, compile};

/// A case with `l` so small that its rows are in both forms of FIRE, and biases that fall with the distance.
fn case(length: usize) -> Case {
    Case {
        weighting: "relu",
        bias: "fire",
        causal: true,
        ..Case::of_length(length)
    }
}

/// The inputs of a case with biases of `near` at distance 0, which fall linearly with FIRE's argument by `slope`.
fn inputs(case: &Case, near: f64, slope: f64) -> Arrays {
    let mut inputs = case.inputs();
    let mut set = |name: &str, value: f64| inputs.get_mut(name).expect("an input").data.fill(value);
    set("w1", 1.0);
    set("b1", 0.0);
    set("w2", -slope / 5.0);
    set("b2", near);
    inputs
}

fn counts(graph: &Graph, inputs: &Arrays) -> TileCounts {
    let options = Options {
        threads: 2,
        ..Options::default()
    };
    let mut executable = Executable::load(compile(graph, &options).expect("the graph compiles"));
    executable.set_profiling(true);
    let mut device = Device::new(2).expect("threads");
    let mut store = runner::store(graph, inputs);
    runner::run(&mut executable, &mut device, &mut store, inputs).expect("the graph runs");
    executable.profile().tiles
}

#[test]
fn a_dense_tile_is_computed() {
    let case = case(200);
    let inputs = inputs(&case, 3.0, 0.0);
    let counts = counts(&case.graph(), &inputs);
    // Four blocks of queries in two heads, and half of the square of scores.
    assert_eq!((counts.tiles, counts.scores), (2 * 10, 2 * 200 * 201 / 2));
    assert_eq!((counts.skipped, counts.empty, counts.sparse), (0, 0, 0));
    assert!(counts.nonzeros > counts.scores / 2);
    case.check_with(&inputs, 1e-6);
}

#[test]
fn tiles_of_zeros_are_left_out() {
    for (near, slope) in [(-1000.0, 0.0), (8.0, 100.0), (-20.0, 10.0)] {
        let case = case(450);
        let inputs = inputs(&case, near, slope);
        let counts = counts(&case.graph(), &inputs);
        assert!(counts.skipped > counts.tiles / 3, "{near}, {slope}: {counts:?}");
        assert!(counts.skipped_scores > counts.scores / 4, "{counts:?}");
        case.check_with(&inputs, 1e-6);
    }
}

#[test]
fn few_weights_are_summed_one_by_one() {
    for (near, slope) in [(-2.5, 0.0), (-2.0, 0.5)] {
        for p in [0.0, 0.25] {
            let case = Case { p, d: 5, ..case(300) };
            let inputs = inputs(&case, near, slope);
            let counts = counts(&case.graph(), &inputs);
            assert!(
                counts.nonzeros > 0 && counts.nonzeros < counts.scores / 20,
                "{counts:?}"
            );
            assert!(counts.sparse > counts.tiles / 4, "{counts:?}");
            case.check_with(&inputs, 1e-6);
        }
    }
}

#[test]
fn counts_do_not_depend_on_grouped_queries_and_segments() {
    let case = Case {
        heads: 4,
        starts: vec![0, 70, 300],
        ..case(300)
    };
    let inputs = inputs(&case, -6.0, 20.0);
    let counts = counts(&case.graph(), &inputs);
    assert_eq!(counts.scores, 4 * (70 * 71 / 2 + 230 * 231 / 2));
    case.check_with(&inputs, 1e-6);
}

#[test]
fn a_query_that_is_nan_gives_nan() {
    let case = case(130);
    let mut inputs = inputs(&case, -4.0, 10.0);
    inputs.get_mut("q").expect("an input").data[100 * case.heads * case.d] = f64::NAN;
    let results = runner::run_once(&case.graph(), &Options::default(), &inputs).1;
    let row = |i: usize| &results["o"][i * case.heads * case.dv..][..case.dv];
    assert!(row(100).iter().all(|x| x.is_nan()), "{:?}", row(100));
    assert!(row(99).iter().all(|x| x.is_finite()));
}
