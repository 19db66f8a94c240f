//! Recorded statistics against plain loops, and that nothing is added to other graphs.

use std::collections::HashMap;

use lessen_graph::{Array, DType, Tensor, Trace, Type, evaluate, print};
use lessen_nn::statistics::histogram_edges;
use lessen_nn::{Cx, Selection, Statistic};

const ALL: [Statistic; 5] = [
    Statistic::Summary,
    Statistic::Share {
        name: "near",
        above: -0.5,
        up_to: 0.0,
    },
    Statistic::Histogram,
    Statistic::RowEntropy,
    Statistic::RowDeviation,
];

/// The statistics of `x` where `seen`, by name.
fn recorded(x: &Array, seen: Option<&Array>) -> HashMap<String, Array> {
    let trace = Trace::new();
    let cx = Cx::recording(*trace, false, &Selection::all());
    let declare = |name: &str, array: &Array| trace.input(name, array.ty.dtype, &array.ty.shape);
    let seen_input = seen.map(|seen| declare("seen", seen));
    cx.observe_where("x", &ALL, declare("x", x), seen_input);
    for recorded in cx.recorded().unwrap() {
        trace.output(&recorded.name, recorded.value);
    }
    let mut inputs = HashMap::from([("x".to_string(), x.clone())]);
    inputs.extend(seen.map(|seen| ("seen".to_string(), seen.clone())));
    evaluate(&trace.finish(), &inputs).unwrap()
}

/// Asserts that `found` has the statistics of `rows`, which lack the elements that are not seen.
fn check(found: &HashMap<String, Array>, rows: &[Vec<f64>]) {
    let all: Vec<f64> = rows.concat();
    let mean_of = |values: &[f64]| values.iter().sum::<f64>() / (values.len() as f64).max(1.0);
    let deviation = |values: &[f64]| {
        let mean = mean_of(values);
        mean_of(&values.iter().map(|x| (x - mean).powi(2)).collect::<Vec<_>>()).sqrt()
    };
    let share = |f: &dyn Fn(f64) -> bool| mean_of(&all.iter().map(|&x| f64::from(f(x))).collect::<Vec<_>>());
    let sum = |row: &[f64]| row.iter().sum::<f64>();
    let entropy = |row: &Vec<f64>| {
        let p = row.iter().map(|x| x / sum(row)).filter(|&p| p != 0.0);
        p.map(|p| -p * p.ln()).sum::<f64>()
    };
    let entropies: Vec<f64> = rows.iter().filter(|row| sum(row) != 0.0).map(entropy).collect();
    let deviations: Vec<f64> = rows
        .iter()
        .filter(|row| !row.is_empty())
        .map(|row| deviation(row))
        .collect();
    for (name, expected) in [
        ("count", all.len() as f64),
        ("mean", mean_of(&all)),
        ("std", deviation(&all)),
        ("min", all.iter().copied().fold(f64::INFINITY, f64::min)),
        ("max", all.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        ("zeros", share(&|x| x == 0.0)),
        ("near", share(&|x| -0.5 < x && x <= 0.0)),
        ("entropy", mean_of(&entropies)),
        ("row_std", mean_of(&deviations)),
    ] {
        let value = found[&format!("x/{name}")].item();
        let near = (value - expected).abs() <= 1e-5 * (1.0 + expected.abs());
        assert!(near || value == expected, "{name} is {value}, not {expected}");
    }
    let (counts, edges) = (&found["x/histogram"].data, histogram_edges());
    assert_eq!(counts.len() + 1, edges.len());
    assert_eq!(counts.iter().sum::<f64>(), all.len() as f64);
    for (bin, &count) in counts.iter().enumerate() {
        let (low, high) = (edges[bin], edges[bin + 1]);
        let inside = |x: f64| match low.total_cmp(&0.0) {
            _ if low == high => x == low,
            std::cmp::Ordering::Less => low < x && x <= high && x != 0.0,
            _ => low <= x && x < high && x != 0.0,
        };
        assert_eq!(count, all.iter().filter(|&&x| inside(x)).count() as f64, "bin {bin}");
    }
}

/// Numbers that are exact in `f32`: some are 0 and, unless `positive`, some are negative.
fn numbers(shape: &[usize], positive: bool) -> Array {
    let mut random = lessen_base::SplitMix64::new(5);
    Array::from_fn(Type::f32(shape), |_| {
        let x = (random.below(33) as f64 - 8.0) / 8.0;
        if positive { x.max(0.0) } else { x }
    })
}

#[test]
fn statistics_are_those_of_the_elements() {
    for shape in [&[7][..], &[3, 5], &[2, 3, 4, 5], &[]] {
        let x = numbers(shape, true);
        let rows: Vec<Vec<f64>> = x
            .data
            .chunks(x.ty.shape.last().copied().unwrap_or(1))
            .map(<[f64]>::to_vec)
            .collect();
        check(&recorded(&x, None), &rows);
    }
    let found = recorded(&numbers(&[4, 6], false), None);
    assert!(found["x/near"].item() > 0.0 && found["x/min"].item() < 0.0);
}

#[test]
fn elements_that_are_not_seen_do_not_count_whatever_they_are() {
    let mut x = numbers(&[2, 3, 5], true);
    // Rows, then columns, then single elements.
    for shape in [&[2, 3, 1][..], &[2, 1, 5], &[2, 3, 5]] {
        let mut random = lessen_base::SplitMix64::new(9);
        let mut seen = Array::from_fn(Type::new(DType::Bool, shape), |_| random.below(2) as f64);
        seen.data[0] = 0.0;
        let is_seen = |r: usize, j: usize| {
            let index: Vec<usize> = [r / 3, r % 3, j]
                .iter()
                .zip(shape)
                .map(|(&i, &n)| i.min(n - 1))
                .collect();
            seen.at(&index) != 0.0
        };
        for r in 0..6 {
            (0..5)
                .filter(|&j| !is_seen(r, j))
                .for_each(|j| x.data[r * 5 + j] = f64::NAN);
        }
        let row = |r: usize| (0..5).filter(|&j| is_seen(r, j)).map(|j| x.data[r * 5 + j]).collect();
        check(&recorded(&x, Some(&seen)), &(0..6).map(row).collect::<Vec<Vec<f64>>>());
        x = numbers(&[2, 3, 5], true);
    }
    let none = Array::full(Type::new(DType::Bool, &[2, 3, 5]), 0.0);
    check(&recorded(&x, Some(&none)), &vec![Vec::new(); 6]);
}

/// A model of two layers that observes a value in each, and one of its own.
fn observing(cx: Cx) -> Tensor {
    let x = cx.input("x", DType::F32, &[2, 3]);
    let y = (0..2).fold(x, |x, i| {
        cx.scope(&format!("h.{i}"), |cx| {
            cx.observe("pre_activation", &ALL, x);
            let y = x.relu();
            cx.observe("pre_activation", &[Statistic::Histogram], y);
            y
        })
    });
    cx.observe("y", &[Statistic::Summary], y);
    y
}

#[test]
fn names_are_scoped_unique_and_selected() {
    let trace = Trace::new();
    let cx = Cx::recording(*trace, false, &"h.0.*,y".parse().unwrap());
    observing(cx);
    let names: Vec<String> = cx.recorded().unwrap().into_iter().map(|r| r.name).collect();
    let of = |name: &str, statistics: &[&str]| statistics.iter().map(|s| format!("{name}/{s}")).collect::<Vec<_>>();
    let summary = ["count", "mean", "std", "min", "max", "zeros"];
    let expected = [
        of("h.0.pre_activation", &summary),
        of("h.0.pre_activation", &["near", "histogram", "entropy", "row_std"]),
        of("h.0.pre_activation.2", &["histogram"]),
        of("y", &summary),
    ];
    assert_eq!(names, expected.concat());

    let trace = Trace::new();
    let cx = Cx::recording(*trace, false, &"attention".parse().unwrap());
    observing(cx);
    let error = cx.recorded().unwrap_err().to_string();
    assert!(
        error.ends_with("it has h.0.pre_activation, h.1.pre_activation, y"),
        "{error}"
    );
}

#[test]
fn observing_adds_nothing_to_other_graphs() {
    let trace = Trace::new();
    trace.output("y", observing(Cx::new(*trace, true)));
    let expected = "input \"x\" %0 : f32[2,3]\n\
                    %1 = relu(%0) @h.0 : f32[2,3]\n\
                    %2 = relu(%1) @h.1 : f32[2,3]\n\
                    output \"y\" = %2\n";
    assert_eq!(print(&trace.finish()), expected);
}
