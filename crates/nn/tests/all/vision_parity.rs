//! Networks of the papers on dataset condensation have the logits, gradients and second derivatives of PyTorch, as
//! `tests/fixtures/make_vision.py` recorded them.

use crate::support::{Arrays, assert_close, expected};
use lessen_graph::{Array, DType, Trace, Type, evaluate_exactly};
use lessen_nn::models::vision::{ResNet, VisionModel};
use lessen_nn::{Cx, ParamSpec};

/// The value of a parameter in the recorded networks.
fn value(param: &ParamSpec) -> Array {
    let is_norm = param.shape.len() == 1 && param.name.ends_with("weight");
    let of = |i: usize| (0.7 * i as f64 + param.name.len() as f64).sin() / 3.0 + f64::from(u8::from(is_norm));
    let count = param.shape.iter().product();
    Array::new(Type::f32(&param.shape), (0..count).map(of).collect())
}

fn check(name: &str, model: &VisionModel) {
    let recorded = expected("vision");
    let array = |what: &str| &recorded[&format!("{name}/{what}")];
    let images = array("images");
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let input = cx.input("images", DType::F32, &images.ty.shape);
    let logits = model.forward(cx, input);
    let labels = trace.constant(Array::i32(&[2], &[0, 1]));
    let loss = logits.cross_entropy(labels);
    let params = cx.params();
    let tensors: Vec<_> = params.iter().map(|param| trace.tensor(param.value)).collect();
    let squares = loss
        .grad(&tensors)
        .into_iter()
        .map(|gradient| (gradient * gradient).sum());
    let size = squares.reduce(|a, b| a + b).unwrap();
    trace.output("logits", logits);
    trace.output("grad", loss.grad(&[input])[0]);
    trace.output("second", size.grad(&[input])[0]);
    let mut given: Arrays = params.iter().map(|param| (param.name.clone(), value(param))).collect();
    given.insert("images".into(), images.clone());
    let found = evaluate_exactly(&trace.finish(), &given).unwrap();
    for what in ["logits", "grad", "second"] {
        assert_close(&format!("{what} of {name}"), &found[what], array(what), 1e-6);
    }
}

#[test]
fn mlp_and_resnet_with_instance_norm_are_those_of_pytorch() {
    check("mlp", &VisionModel::preset("mlp", 3).unwrap());
    let narrow = ResNet {
        stem_width: 4,
        width: 4,
        blocks: vec![1, 1],
        ..ResNet::instance(3)
    };
    check("resnet", &narrow.into());
}
