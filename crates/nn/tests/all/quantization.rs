//! Layers at few bits: what they multiply, the ranges of their inputs, and what `config.json` says of them.

use std::collections::BTreeMap;
use std::fs;

use crate::support::{Arrays, Folder};
use lessen_graph::{Array, DType, Tensor, Trace, Type, evaluate_exactly};
use lessen_nn::layers::{self, Convolution};
use lessen_nn::models::vision::{ImageClassifier, ImageClassifierConfig, Network};
use lessen_nn::quantization::{check_scale, quantize_in_range, quantize_weight};
use lessen_nn::{Bits, Cx, Init, Model, Quantization, Ranges};
use serde_json::json;

fn numbers(shape: &[usize]) -> Array {
    let ty = Type::f32(shape);
    let data = (0..ty.numel())
        .map(|i| ((i * 37 + 11) % 23) as f64 / 7.0 - 1.5)
        .collect();
    Array::new(ty, data)
}

/// A row at the levels of `bits` bits of a symmetric range.
fn rounded(row: &[f64], clip: f64, bits: u32) -> Vec<f64> {
    let most = f64::from((1 << (bits - 1)) - 1);
    let scale = clip / most;
    row.iter()
        .map(|x| (x / scale).round_ties_even().clamp(-most, most) * scale)
        .collect()
}

fn greatest(row: &[f64]) -> f64 {
    row.iter().fold(0.0, |most: f64, x| most.max(x.abs()))
}

/// A linear layer of 3 outputs whose input is `x`, quantized as `how` says.
fn linear(cx: Cx, how: &Quantization, x: Tensor) -> Tensor {
    layers::projection(cx.with_quantization(Some(how)), "fc", x, 3, Init::Zeros)
}

/// The results of the layer on `x` with these states, and the states after it.
fn run(how: &Quantization, training: bool, x: &Array, states: &Arrays) -> Arrays {
    let trace = Trace::new();
    let cx = Cx::new(*trace, training);
    let input = cx.input("x", DType::F32, &x.ty.shape);
    trace.output("y", linear(cx, how, input));
    let mut given = states.clone();
    given.insert("x".to_string(), x.clone());
    evaluate_exactly(&trace.finish(), &given).unwrap()
}

/// The product of rows and of a weight that are rounded already.
fn product(rows: &[Vec<f64>], weight: &[Vec<f64>]) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum();
    rows.iter()
        .flat_map(|row| weight.iter().map(|own| dot(row, own)))
        .collect()
}

fn assert_near(found: &Array, expected: &[f64]) {
    assert_eq!(found.data.len(), expected.len());
    for (a, b) in found.data.iter().zip(expected) {
        assert!((a - b).abs() < 1e-6 * (1.0 + b.abs()), "{a} and {b}");
    }
}

#[test]
fn rows_and_weights_are_at_the_levels_of_their_bits() {
    let (x, weight) = (numbers(&[2, 5]), numbers(&[3, 5]));
    let states = Arrays::from([("fc.weight".to_string(), weight.clone())]);
    for (bits, rows, weights) in [
        ("w8a8", Some(8), Some(8)),
        ("w2a4", Some(4), Some(2)),
        ("w32a3", Some(3), None),
    ] {
        let how = Quantization::new(bits.parse().unwrap(), Ranges::Dynamic);
        let of = |array: &Array, bits: Option<u32>| -> Vec<Vec<f64>> {
            let row = |row: &[f64]| bits.map_or(row.to_vec(), |bits| rounded(row, greatest(row), bits));
            array.rows().map(row).collect()
        };
        let found = run(&how, false, &x, &states);
        assert_near(&found["y"], &product(&of(&x, rows), &of(&weight, weights)));
    }
    let mut how = Quantization::new(Bits::EIGHT, Ranges::Dynamic);
    how.layers.insert("fc".to_string(), Bits::FLOAT);
    let of = |array: &Array| array.rows().map(<[f64]>::to_vec).collect::<Vec<_>>();
    assert_near(&run(&how, false, &x, &states)["y"], &product(&of(&x), &of(&weight)));
}

#[test]
fn running_ranges_follow_batches_and_rounding_starts_when_it_is_to() {
    let (x, weight) = (numbers(&[2, 5]), numbers(&[3, 5]));
    let how = Quantization {
        start: 2,
        ..Quantization::new(Bits::EIGHT, Ranges::Running)
    };
    let mut states = Arrays::from([
        ("fc.weight".to_string(), weight.clone()),
        ("fc.input_range".to_string(), Array::f32(&[1], vec![0.0])),
        ("quantization.batches".to_string(), Array::f32(&[1], vec![0.0])),
    ]);
    let of = |array: &Array| array.rows().map(<[f64]>::to_vec).collect::<Vec<_>>();
    let plain = product(&of(&x), &of(&weight));
    let mut range = 0.0;
    for step in 0..4 {
        // The second batch is larger: its greatest magnitude moves the range by a hundredth.
        let factor = if step == 1 { 4.0 } else { 1.0 };
        let mut batch = x.clone();
        batch.data.iter_mut().for_each(|x| *x *= factor);
        let most = greatest(&batch.data);
        range = if step == 0 { most } else { range + 0.01 * (most - range) };
        let found = run(&how, true, &batch, &states);
        if step < 2 {
            assert_near(&found["y"], &plain.iter().map(|y| y * factor).collect::<Vec<_>>());
        } else {
            let rows: Vec<_> = batch.rows().map(|row| rounded(row, range, 8)).collect();
            let weights: Vec<_> = weight.rows().map(|row| rounded(row, greatest(row), 8)).collect();
            assert_near(&found["y"], &product(&rows, &weights));
        }
        assert_near(&found["fc.input_range"], &[range]);
        assert_near(&found["quantization.batches"], &[f64::from((step + 1).min(2))]);
        for (name, state) in &mut states {
            if let Some(after) = found.get(name) {
                *state = after.clone();
            }
        }
    }
    // Elsewhere nothing moves, and the range is the last one.
    let found = run(&how, false, &x, &states);
    assert_eq!(found.len(), 1, "{found:?}");
    let rows: Vec<_> = x.rows().map(|row| rounded(row, range, 8)).collect();
    let weights: Vec<_> = weight.rows().map(|row| rounded(row, greatest(row), 8)).collect();
    assert_near(&found["y"], &product(&rows, &weights));
}

#[test]
fn a_learned_factor_has_the_derivative_of_the_clip_times_the_range() {
    let how = Quantization::new("w32a8".parse().unwrap(), Ranges::Learned);
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let x = cx.input("x", DType::F32, &[1, 3]);
    let y = linear(cx, &how, x);
    let factor = cx
        .params()
        .into_iter()
        .find(|param| param.name == "fc.input_factor")
        .unwrap();
    assert!(!factor.is_buffer);
    trace.output("gradient", y.sum().grad(&[trace.tensor(factor.value)])[0]);
    let state = |x: f64| Array::f32(&[1], vec![x]);
    let given = Arrays::from([
        ("x".to_string(), Array::f32(&[1, 3], vec![5.0, -7.0, 0.0])),
        ("fc.weight".to_string(), Array::f32(&[3, 3], vec![1.0; 9])),
        ("fc.input_range".to_string(), state(2.0)),
        ("fc.input_factor".to_string(), state(1.5)),
    ]);
    let found = evaluate_exactly(&trace.finish(), &given).unwrap();
    // Both numbers are beyond the clip of 3, one on either side: together nothing, as their weights are the same.
    assert!(found["gradient"].item().abs() < 1e-9, "{found:?}");
    // The range stays as it is.
    assert_eq!(found["fc.input_range"].item(), 2.0);
}

#[test]
fn what_shows_no_negative_number_takes_all_levels_of_few_bits() {
    let how = Quantization::new("w32a2".parse().unwrap(), Ranges::Running);
    for (is_positive, expected) in [(true, vec![0.0, 1.0, 2.0, 3.0]), (false, vec![0.0, 0.0, 3.0, 3.0])] {
        let trace = Trace::new();
        let cx = Cx::new(*trace, true);
        let x = cx.input("x", DType::F32, &[1, 4]);
        let x = if is_positive { x.relu() } else { x.abs() };
        let cx = cx.with_quantization(Some(&how));
        trace.output("y", layers::projection(cx, "fc", x, 4, Init::Zeros));
        let identity = Array::from_fn(Type::f32(&[4, 4]), |i| f64::from(i[0] == i[1]));
        let given = Arrays::from([
            ("x".to_string(), Array::f32(&[1, 4], vec![0.0, 1.1, 2.2, 3.0])),
            ("fc.weight".to_string(), identity),
            ("fc.input_range".to_string(), Array::f32(&[1], vec![0.0])),
        ]);
        assert_near(&evaluate_exactly(&trace.finish(), &given).unwrap()["y"], &expected);
    }
}

#[test]
fn functions_for_searches_round_and_refuse_other_bits() {
    for bits in 2..=8 {
        let trace = Trace::new();
        let (w, x) = (
            trace.input("w", DType::F32, &[3, 5]),
            trace.input("x", DType::F32, &[2, 5]),
        );
        let clip = trace.input("clip", DType::F32, &[]);
        trace.output("w at levels", quantize_weight(w, bits, 0));
        trace.output("x at levels", quantize_in_range(x, bits, true, clip));
        let (weight, rows) = (numbers(&[3, 5]), numbers(&[2, 5]));
        let clip = Array::f32(&[], vec![1.25]);
        let given = Arrays::from([
            ("w".to_string(), weight.clone()),
            ("x".to_string(), rows.clone()),
            ("clip".to_string(), clip),
        ]);
        let found = trace.with_graph(|graph| evaluate_exactly(graph, &given)).unwrap();
        let expected: Vec<f64> = weight
            .rows()
            .flat_map(|row| rounded(row, greatest(row), bits))
            .collect();
        assert_near(&found["w at levels"], &expected);
        let most = f64::from((1 << bits) - 1);
        let half_wave = |x: &f64| (x * most / 1.25).round_ties_even().clamp(0.0, most) * 1.25 / most;
        assert_near(
            &found["x at levels"],
            &rows.data.iter().map(half_wave).collect::<Vec<_>>(),
        );
    }
    for bits in [0, 1, 9] {
        let trace = Trace::new();
        let w = trace.input("w", DType::F32, &[3, 5]);
        let error = trace.attempt(|| quantize_weight(w, bits, 0)).unwrap_err().to_string();
        assert!(error.contains(&format!("{bits} bits; choose from 2 to 8")), "{error}");
    }
}

fn network(name: &str) -> Model {
    let config = ImageClassifierConfig::of(Network::of(name).unwrap(), [32, 32, 3]);
    ImageClassifier { config }.into()
}

#[test]
fn a_config_says_how_layers_are_quantized() {
    let mut model = network("resnet20");
    let layers = model.layers();
    assert_eq!((layers[0].as_str(), layers.last().unwrap().as_str()), ("conv1", "fc"));
    assert_eq!(layers.len(), 20);
    let plain = model.parameters().len();
    let mut how = Quantization::new("w4a4".parse().unwrap(), Ranges::Learned);
    how.layers.insert("fc".to_string(), Bits::EIGHT);
    how.start = 7;
    model.set_quantization(Some(how.clone())).unwrap();
    // Each layer has a range and a factor, and batches are counted.
    assert_eq!(model.parameters().len(), plain + 2 * layers.len() + 1);
    let config = model.config_json();
    assert_eq!(
        config["lessen_quantize"],
        json!({"bits": "w4a4", "layers": {"fc": "w8a8"}, "ranges": "learned", "start": 7})
    );
    let folder = Folder::new();
    let read = |value: serde_json::Value| {
        let mut config = config.clone();
        config.insert("lessen_quantize".to_string(), value);
        fs::write(folder.file("config.json"), serde_json::Value::from(config).to_string()).unwrap();
        Model::from_dir(&folder.0)
    };
    assert_eq!(
        read(config["lessen_quantize"].clone()).unwrap().quantization(),
        Some(&how)
    );
    assert_eq!(read(json!(null)).unwrap().quantization(), None);
    for (value, says) in [
        (json!("w8a8"), "is no object"),
        (json!({"bits": "w9a8", "ranges": "running"}), "`w9a8` says no bits"),
        (json!({"bits": "w8a8", "ranges": "fixed"}), "`fixed` is none of running"),
        (
            json!({"bits": "w8a8", "ranges": "running", "group": 3}),
            "the field `group`",
        ),
        (
            json!({"bits": "w8a8", "ranges": "running", "start": -1}),
            "no number of batches",
        ),
        (
            json!({"bits": "w8a8", "ranges": "running", "layers": {"fd": "w8a8"}}),
            "no layer `fd`",
        ),
        (
            json!({"bits": "w8a8", "ranges": "running", "layers": {"fc": 8}}),
            "says no bits",
        ),
    ] {
        let error = read(value).unwrap_err().to_string();
        assert!(error.contains("lessen_quantize") && error.contains(says), "{error}");
    }
    how.layers = BTreeMap::from([("nothing".to_string(), Bits::EIGHT)]);
    let error = model.set_quantization(Some(how)).unwrap_err().to_string();
    assert!(
        error.starts_with("the model has no layer `nothing` to quantize; it has conv1, "),
        "{error}"
    );
}

#[test]
fn scales_of_inputs_are_positive_numbers() {
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, 3e38] {
        let error = check_scale("a.input_scale", &[scale]).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("the tensor `a.input_scale` is {scale}, and scales are")),
            "{error}"
        );
        assert!(check_scale("a.weight", &[scale]).is_ok());
    }
    assert!(check_scale("a.input_scale", &[0.25]).is_ok());
}

#[test]
fn a_kernel_has_a_scale_for_each_channel_of_its_results() {
    let how = Quantization::new("w4a32".parse().unwrap(), Ranges::Dynamic);
    let weight = numbers(&[2, 1, 1, 1]);
    let trace = Trace::new();
    let cx = Cx::new(*trace, false).with_quantization(Some(&how));
    let x = cx.input("x", DType::F32, &[1, 1, 1, 1]);
    trace.output("y", layers::conv2d(cx, "conv", x, Convolution::square(2, 1, 1)));
    let given = Arrays::from([
        ("x".to_string(), Array::f32(&[1, 1, 1, 1], vec![1.0])),
        ("conv.weight".to_string(), weight.clone()),
    ]);
    // Each channel has one number, which is its greatest: nothing is rounded.
    assert_near(&evaluate_exactly(&trace.finish(), &given).unwrap()["y"], &weight.data);
}
