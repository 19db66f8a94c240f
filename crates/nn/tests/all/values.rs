//! Values of the graph in place of parameters.

use std::collections::{BTreeMap, HashMap};

use lessen_graph::{Array, DType, Trace, evaluate_exactly};
use lessen_nn::layers::linear;
use lessen_nn::{Cx, Init};

#[test]
fn a_layer_reads_values_in_place_of_parameters_and_declares_what_has_none() {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let x = cx.input("x", DType::F32, &[1, 2]);
    let weight = cx.param("all", &[2, 3], Init::Zeros) * 2.0;
    let values = BTreeMap::from([("block.layer.weight".to_string(), weight.permute(&[1, 0]))]);
    let y = linear(cx.with_values(values).at("block"), "layer", x, 3, Init::Zeros);
    trace.output("y", y);
    trace.output("slope", y.sum().grad(&[trace.tensor(cx.params()[0].value)])[0]);
    let names: Vec<String> = cx.params().into_iter().map(|param| param.name).collect();
    assert_eq!(names, ["all", "block.layer.bias"]);
    let given = HashMap::from([
        ("x".to_string(), Array::f32(&[1, 2], vec![1.0, 10.0])),
        (
            "all".to_string(),
            Array::f32(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ),
        ("block.layer.bias".to_string(), Array::f32(&[3], vec![0.5, 0.5, 0.5])),
    ]);
    let results = evaluate_exactly(&trace.finish(), &given).expect("a sound graph");
    assert_eq!(results["y"].data, [82.5, 104.5, 126.5]);
    assert_eq!(results["slope"].data, [2.0, 2.0, 2.0, 20.0, 20.0, 20.0]);
}

#[test]
fn a_value_of_another_shape_is_refused() {
    let trace = Trace::new();
    let refused = trace.attempt(|| {
        let cx = Cx::new(*trace, false);
        let x = cx.input("x", DType::F32, &[1, 2]);
        let values = BTreeMap::from([("layer.weight".to_string(), x)]);
        linear(cx.with_values(values), "layer", x, 3, Init::Zeros);
    });
    let sentence = refused.expect_err("nothing was refused").to_string();
    assert!(
        sentence.contains("parameter `layer.weight` is not f32 of shape [3, 2]"),
        "{sentence}"
    );
}
