//! Normalized logits: their deviation, their derivative where a row has no deviation, and large rows.

use std::collections::HashMap;

use lessen_graph::ops::temperature::{Clip, LEAST_TEMPERATURE, Temperature};
use lessen_graph::{Array, DType, Trace, evaluate_exactly};

/// The normalized rows, the mean cross entropy over them, and its derivative. The last of the labels is ignored.
fn results(temperature: Temperature, rows: &[[f64; 4]]) -> HashMap<String, Array> {
    let trace = Trace::new();
    let z = trace.input("z", DType::F32, &[rows.len(), 4]);
    let labels = trace.input("labels", DType::I32, &[rows.len()]);
    let y = z.norm_logits(temperature);
    let loss = y.cross_entropy(labels);
    trace.output("y", y);
    trace.output("loss", loss);
    trace.output("dz", loss.grad(&[z])[0]);
    let mut numbers = vec![1; rows.len()];
    *numbers.last_mut().unwrap() = -100;
    let inputs = HashMap::from([
        ("z".to_string(), Array::f32(&[rows.len(), 4], rows.concat())),
        ("labels".to_string(), Array::i32(&[rows.len()], &numbers)),
    ]);
    trace.with_graph(|graph| evaluate_exactly(graph, &inputs)).unwrap()
}

fn deviation(row: &[f64]) -> f64 {
    let mean = row.iter().sum::<f64>() / row.len() as f64;
    (row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / row.len() as f64).sqrt()
}

#[test]
fn rows_deviate_by_what_the_bound_leaves() {
    let rows = [[1.0, 2.0, 4.0, 3.5], [0.1, 0.0, 0.2, 0.3], [0.0; 4]];
    let at = |clip| Temperature {
        clip,
        ..Temperature::default()
    };
    // With gamma = 1, deviations above 1 stay unchanged, and smaller ones become 1; without a bound all become 1.
    for (clip, expected) in [
        (Clip::AtMost(1.0), [deviation(&rows[0]), 1.0]),
        (Clip::AtMost(f64::INFINITY), [1.0, 1.0]),
        (Clip::AtLeast(1.0), [1.0, deviation(&rows[1])]),
    ] {
        let y = &results(at(clip), &rows)["y"].data;
        for (row, expected) in y.chunks(4).zip(expected) {
            assert!((deviation(row) - expected).abs() < 1e-12, "{clip:?}: {row:?}");
        }
    }
    let logit_norm = Temperature {
        centered: false,
        clip: Clip::AtMost(f64::INFINITY),
        tau: 0.5,
        learned: false,
    };
    // LogitNorm divides by the norm times tau n^-1/2.
    let norm = rows[0].iter().map(|x| x * x).sum::<f64>().sqrt();
    let y = &results(logit_norm, &rows)["y"].data;
    for (y, x) in y.iter().zip(rows[0]) {
        assert!((y - x / (norm * 0.5 * 0.5)).abs() < 1e-12);
    }
}

#[test]
fn equal_logits_and_large_ones_have_finite_derivatives() {
    for clip in [Clip::AtMost(1.0), Clip::AtMost(f64::INFINITY), Clip::AtLeast(1.0)] {
        for centered in [true, false] {
            let temperature = Temperature {
                centered,
                clip,
                ..Temperature::default()
            };
            let found = results(
                temperature,
                &[[0.0; 4], [7.0; 4], [1e4, -1e4, 0.0, 3.0], [1.0, 2.0, 3.0, 4.0]],
            );
            assert!(
                found.values().flat_map(|a| &a.data).all(|x| x.is_finite()),
                "{temperature:?}"
            );
            // The ignored row has no derivative.
            assert_eq!(found["dz"].data[12..], [0.0; 4]);
            let least = if clip == Clip::AtLeast(1.0) {
                1.0
            } else {
                LEAST_TEMPERATURE
            };
            let expected = [0.25, -0.75, 0.25, 0.25].map(|d| d / 3.0 / least);
            let near = found["dz"].data.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-9);
            assert!(near, "{temperature:?}: {:?}", &found["dz"].data[..4]);
        }
    }
}
