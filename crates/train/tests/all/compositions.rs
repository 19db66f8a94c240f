//! Functions made of several operations, on a device: what the reference evaluator computes.

use std::collections::HashMap;

use lessen_device::Host;
use lessen_graph::{Array, Conv1dOptions, Conv2dOptions, DType, Pool1d, Tensor, Trace, Type, evaluate_exactly, stack};
use lessen_nn::names::KEY;
use lessen_nn::{Cx, losses};
use lessen_train::Session;

use crate::support::device;

const SHAPE: [usize; 3] = [2, 6, 4];

/// Results by their names.
fn results(cx: Cx) -> Vec<(&'static str, Tensor)> {
    let x = cx.input("x", DType::F32, &SHAPE);
    let ids = cx.input("ids", DType::I32, &[2, 6]);
    let how = Conv1dOptions {
        stride: 2,
        padding: [2, 1],
        dilation: 2,
        groups: 2,
    };
    let image = Conv2dOptions {
        stride: [1, 2],
        ..Conv2dOptions::default()
    };
    let weight = stack(&[x.slice(1, 0, 3).reshape(&[4, 2, 3])], 0).reshape(&[4, 2, 3]);
    let kernel = x.reshape(&[4, 3, 1, 4]);
    let convolved = x.conv1d(weight, how);
    let up = x.conv_transpose1d(weight, how, 1);
    let up_image = x.unsqueeze(1).conv_transpose2d(kernel, image, [0, 1]);
    let loss = losses::binary_cross_entropy(convolved, convolved.stop_gradient().sigmoid())
        + losses::smooth_l1(up.max_pool1d(Pool1d::of(2)), up.avg_pool1d(Pool1d::of(2), true), 0.7)
        + losses::triplet_margin(
            x,
            x.softmax_along(1),
            up_image.global_max_pool2d().sum() * 0.01 + x * 0.5,
            1.0,
        )
        + losses::kl_divergence(x.log_softmax_along(0), x.softmax_along(0))
        + (2 * x.softplus() - 1 / (x.abs() + 1.0f32)).mean();
    vec![
        ("normal", cx.normal(&[3, 67])),
        ("uniform", cx.uniform(&[3, 67])),
        ("bernoulli", cx.bernoulli(&[3, 67], 0.3).cast(DType::F32)),
        ("one_hot", ids.one_hot(5)),
        ("convolved", convolved),
        ("up", up),
        ("up_image", up_image),
        ("loss", loss),
        ("gradient", loss.grad(&[x])[0]),
    ]
}

#[test]
fn a_device_computes_what_the_evaluator_does() {
    let numbers: Vec<f32> = (0..48).map(|i| (i * 29 % 48) as f32 / 16.0 - 1.47).collect();
    let (ids, key) = ([0, 4, 2, -1, 5, 3, 1, 1, 0, 2, 4, 3], [11u32, 3_000_000_000]);

    let trace = Trace::new();
    for (name, tensor) in results(Cx::new(*trace, false)) {
        trace.output(name, tensor);
    }
    let given = HashMap::from([
        (
            "x".to_string(),
            Array::f32(&SHAPE, numbers.iter().map(|&x| x.into()).collect()),
        ),
        ("ids".to_string(), Array::i32(&[2, 6], &ids)),
        (
            KEY.to_string(),
            Array::new(Type::new(DType::U32, &[2]), key.map(f64::from).to_vec()),
        ),
    ]);
    let expected = evaluate_exactly(&trace.finish(), &given).unwrap();

    let mut session = Session::zeros(device(2), Vec::new()).unwrap();
    let ask = session.function(results).unwrap();
    let inputs: [(&str, Host<'_>); 3] = [("x", (&numbers).into()), ("ids", (&ids).into()), (KEY, (&key).into())];
    let found = session.run(ask, &inputs).unwrap();
    assert_eq!(expected.len(), 9);
    for (name, expected) in expected {
        let own = found.f32(&name).unwrap();
        assert_eq!(own.len(), expected.data.len(), "{name}");
        let exact = ["uniform", "bernoulli", "one_hot"].contains(&name.as_str());
        let bound = if exact { 0.0 } else { 1e-5 };
        for (i, (own, expected)) in own.iter().zip(expected.data).enumerate() {
            let difference = (f64::from(*own) - expected).abs();
            assert!(
                difference <= bound * (1.0 + expected.abs()),
                "{name}[{i}]: {own} for {expected}"
            );
        }
    }
}
