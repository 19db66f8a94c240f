//! The cost of HeLU: nothing over ReLU where nothing is differentiated.

use std::collections::HashMap;

use lessen_compile::{dump_memory, dump_schedule};
use lessen_cpu::{Device, Executable, Store};
use lessen_graph::{DType, Graph, Tensor, Trace, print};

use super::runner::{Options, compile, results, run};
use crate::random::Random;

/// A feed-forward layer without its derivative.
fn layer(activation: impl Fn(Tensor) -> Tensor) -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[33, 20]);
    let (up, down) = (
        trace.input("up", DType::F32, &[20, 70]),
        trace.input("down", DType::F32, &[70, 20]),
    );
    trace.output("y", x + activation(x.matmul(up)).matmul(down));
    trace.finish()
}

#[test]
fn inference_with_helu_is_that_with_relu() {
    let (helu, relu) = (layer(|x| x.helu(0.25)), layer(|x| x.relu()));
    let options = Options::default();
    let shown = |graph: &Graph| {
        let plan = compile(graph, &options).unwrap();
        [print(plan.graph()), dump_schedule(&plan), dump_memory(&plan)]
    };
    let as_relu = shown(&helu).map(|text| text.replace("helu", "relu").replace(" {alpha=0.25}", ""));
    assert_eq!(as_relu, shown(&relu));

    let mut random = Random::new(5);
    let mut inputs = HashMap::new();
    for input in &relu.inputs {
        let ty = relu.ty(input.value).clone();
        let array = lessen_graph::Array::from_fn(ty, |_| f64::from(random.unit_f32()));
        inputs.insert(input.name.clone(), array);
    }
    let mut device = Device::new(1).unwrap();
    let mut result = |graph: &Graph| {
        let mut executable = Executable::load(compile(graph, &options).unwrap());
        let mut store = Store::new();
        run(&mut executable, &mut device, &mut store, &inputs).unwrap();
        results(&executable, &store).remove("y").unwrap()
    };
    assert_eq!(result(&helu), result(&relu));
}
