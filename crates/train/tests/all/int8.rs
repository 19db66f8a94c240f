//! Inference with matrices of codes of 8 and of 4 bits.

use std::collections::HashMap;

use lessen_compile::Precision;
use lessen_device::Host;
use lessen_graph::ops::QuantizeRows;
use lessen_graph::{Array, DType, Tensor, Trace, Type, evaluate_exactly};
use lessen_nn::layers::{gpt2_linear, layer_norm, linear};
use lessen_nn::{Cx, Init, Weights, initialize};
use lessen_train::Session;

use crate::support::device;

const ROWS: usize = 5;
const WIDTH: usize = 70;
const WORDS: usize = 33;

/// A table that is a matrix of a product as well, and layers with weights of both kinds.
fn model(cx: Cx) -> Tensor {
    let init = Init::Normal { std: 0.3 };
    let ids = cx.input("ids", DType::I32, &[ROWS]);
    let table = cx.param("table", &[WORDS, WIDTH], init);
    let x = layer_norm(cx, "norm", table.gather(ids), 1e-5);
    let hidden = linear(cx, "in", x, 130, init).gelu();
    let hidden = gpt2_linear(cx, "out", hidden, WIDTH, init);
    (x + hidden).matmul_t(table)
}

fn weights() -> (Vec<lessen_nn::ParamSpec>, Weights) {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    model(cx);
    let params = cx.params();
    let weights = initialize(&params, 11);
    (params, weights)
}

const IDS: [i32; ROWS] = [0, 32, 7, 7, 19];

fn results(precision: Precision, threads: usize) -> (Vec<f32>, usize) {
    let (params, weights) = weights();
    let mut session = Session::for_inference(device(threads), params, precision).unwrap();
    session.set_weights(&weights).unwrap();
    let function = session.function(|cx| vec![("y", model(cx))]).unwrap();
    let results = session.run(function, &[("ids", Host::I32(&IDS))]).unwrap();
    let y = results.f32("y").unwrap().to_vec();
    (y, session.planned_memory().states)
}

/// The numbers that codes of the rows of a matrix stand for.
fn restored(matrix: &Array) -> Array {
    let width = matrix.ty.last();
    let rows = matrix.data.chunks(width).flat_map(|row| {
        let row: Vec<f32> = row.iter().map(|x| *x as f32).collect();
        let mut codes = vec![0; width];
        let scale = QuantizeRows::quantize(&row, &mut codes);
        let numbers = codes
            .into_iter()
            .map(move |code| f64::from(QuantizeRows::dequantize(code, scale)));
        numbers.collect::<Vec<f64>>()
    });
    Array::new(matrix.ty.clone(), rows.collect())
}

#[test]
fn results_of_codes_are_near_those_in_f32_take_less_and_do_not_depend_on_threads() {
    let (wide, bytes) = results(Precision::F32, 2);
    for (precision, nearness) in [(Precision::Int8, 0.03), (Precision::Int4, 0.3)] {
        let (narrow, fewer) = results(precision, 2);
        let (one_thread, _) = results(precision, 1);
        let bits = |y: &[f32]| y.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        assert_eq!(bits(&narrow), bits(&one_thread));
        assert!((fewer as f64) < 0.29 * bytes as f64, "{fewer} of {bytes} bytes");
        let largest = wide.iter().fold(0f32, |most, x| most.max(x.abs()));
        let apart = wide.iter().zip(&narrow).map(|(a, b)| (a - b).abs());
        let most = apart.fold(0f32, f32::max);
        assert!(
            most > 0.0 && most < nearness * largest,
            "{precision:?}: off by {most}, the largest is {largest}"
        );
    }
}

/// A matrix `[in, out]` is stored turned, and read back as it was set, to the nearest of 15 levels of each group.
#[test]
fn parameters_in_int4_are_read_back_to_the_nearest_level() {
    let (params, weights) = weights();
    let mut session = Session::for_inference(device(1), params.clone(), Precision::Int4).unwrap();
    session.set_weights(&weights).unwrap();
    for param in params.iter().filter(|param| param.shape.len() == 2) {
        let (found, set) = (session.weight(&param.name).unwrap(), &weights[&param.name].data);
        let columns = param.shape[1];
        // The place of an element in its row of codes, and the row.
        let place = |i: usize| {
            if param.is_turned {
                (i % columns, i / columns)
            } else {
                (i / columns, i % columns)
            }
        };
        let mut most = HashMap::new();
        for (i, x) in set.iter().enumerate() {
            let (row, at) = place(i);
            let largest = most.entry((row, at / 32)).or_insert(0f32);
            *largest = largest.max(x.abs());
        }
        for (i, (found, set)) in found.iter().zip(set).enumerate() {
            let (row, at) = place(i);
            let half = most[&(row, at / 32)] / 14.0;
            assert!(
                (found - set).abs() <= half * 1.001,
                "{} {i}: {found}, {set}",
                param.name
            );
        }
    }
}

#[test]
fn products_in_int8_are_those_of_the_numbers_that_codes_stand_for() {
    // The first product alone, whose rows are known: codes of rows times codes of columns.
    let (rows, k, columns) = (6, 50, 9);
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let layer = |cx: Cx| cx.param("w", &[columns, k], Init::Normal { std: 1.0 }).shape();
    layer(cx);
    let params = cx.params();
    let weights = initialize(&params, 5);
    let mut session = Session::for_inference(device(1), params, Precision::Int8).unwrap();
    session.set_weights(&weights).unwrap();
    let function = session
        .function(|cx| {
            let x = cx.input("x", DType::F32, &[rows, k]);
            vec![("y", x.matmul_t(cx.param("w", &[columns, k], Init::Normal { std: 1.0 })))]
        })
        .unwrap();
    let x: Vec<f32> = (0..rows * k).map(|i| ((i * 37 % 101) as f32 - 50.0) / 13.0).collect();
    let y = session.run(function, &[("x", Host::F32(&x))]).unwrap();
    let y = y.f32("y").unwrap().to_vec();
    let array =
        |shape: &[usize], data: &[f32]| Array::new(Type::f32(shape), data.iter().map(|x| f64::from(*x)).collect());
    let plain = Trace::new();
    let (a, b) = (
        plain.input("a", DType::F32, &[rows, k]),
        plain.input("b", DType::F32, &[columns, k]),
    );
    plain.output("y", a.matmul_t(b));
    let given = HashMap::from([
        ("a".to_string(), restored(&array(&[rows, k], &x))),
        ("b".to_string(), restored(&array(&[columns, k], &weights["w"].data))),
    ]);
    let expected = evaluate_exactly(&plain.finish(), &given).unwrap();
    for (found, expected) in y.iter().zip(&expected["y"].data) {
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= 1e-5 * (1.0 + expected.abs()), "{found}, not {expected}");
    }
    // Read back, the parameter is what its codes stand for.
    assert_eq!(
        session
            .weight("w")
            .unwrap()
            .iter()
            .map(|x| f64::from(*x))
            .collect::<Vec<f64>>(),
        restored(&array(&[columns, k], &weights["w"].data)).data
    );
}
