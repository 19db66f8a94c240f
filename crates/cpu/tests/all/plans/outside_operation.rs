//! An operation from outside, with a name, a type rule, a decomposition and a derivative of its own, runs and trains.

use std::collections::HashMap;

use lessen_cpu::{Device, Executable};
use lessen_device::suite::check_plan as check;
use lessen_graph::{Array, Attr, Attrs, DType, Graph, Op, Phase, Tensor, Trace, Type, Vjp, evaluate};

use crate::plans::runner;
use crate::plans::runner::{Options, compile};
use crate::random::Random;

/// HeLU: `max(x, 0)` whose derivative is that of `max(x + shift, 0)`, so that gradients also pass a little below zero.
#[derive(PartialEq, Debug)]
struct Helu {
    shift: f64,
}

impl Op for Helu {
    fn name(&self) -> &'static str {
        "test.helu"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().with("shift", Attr::Float(self.shift))
    }

    fn infer(&self, inputs: &[Type]) -> lessen_base::Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(vec![inputs[0].relu()])
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let x = cx.inputs[0];
        let open = x.gt(x.scalar_like(-self.shift));
        vec![cx.cotangents[0].map(|dy| open.select(dy, dy.scalar_like(0.0)))]
    }
}

/// The same without a derivative of its own, of two inputs and with two results.
#[derive(PartialEq, Debug)]
struct SumAndProduct;

impl Op for SumAndProduct {
    fn name(&self) -> &'static str {
        "test.sum_and_product"
    }

    fn infer(&self, inputs: &[Type]) -> lessen_base::Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(vec![inputs[0] + inputs[1], inputs[0] * inputs[1]])
    }
}

/// Without a decomposition: only the reference evaluation computes it.
#[derive(PartialEq, Debug)]
struct Cumulative;

impl Op for Cumulative {
    fn name(&self) -> &'static str {
        "test.cumulative"
    }

    fn infer(&self, inputs: &[Type]) -> lessen_base::Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let mut sum = 0.0;
        let sums = inputs[0].data.iter().map(|x| {
            sum += x;
            sum
        });
        vec![Array::new(outputs[0].clone(), sums.collect())]
    }
}

fn training() -> (Graph, HashMap<String, Array>) {
    let trace = Trace::new();
    let mut random = Random::new(2);
    let mut inputs = HashMap::new();
    {
        let x = trace.input("x", DType::F32, &[150, 6]);
        let up = trace.state("up", DType::F32, &[6, 10]);
        let down = trace.state("down", DType::F32, &[10, 6]);
        let hidden = trace.apply1(Helu { shift: 0.5 }, &[x.matmul(up)]);
        let both = trace.apply(SumAndProduct, &[hidden.matmul(down), x]);
        let loss = (both[0] * both[0] + both[1]).mean();
        trace.output("loss", loss);
        trace.output("cumulative", trace.apply1(Cumulative, &[both[1].transpose(0, 1)]));
        for (weight, gradient) in [up, down].into_iter().zip(loss.grad(&[up, down])) {
            let new = trace.in_phase(Phase::Update, || weight - gradient * 0.5);
            trace.assign(weight, new);
        }
    }
    for (name, shape) in [("x", [150, 6]), ("up", [6, 10]), ("down", [10, 6])] {
        inputs.insert(name.to_string(), random.array(&shape, 1.0));
    }
    (trace.finish(), inputs)
}

#[test]
fn an_operation_from_outside_runs_and_trains_on_the_cpu() {
    let (graph, inputs) = training();
    let options = Options {
        threads: 2,
        ..Options::default()
    };
    let mut executable = Executable::load(compile(&graph, &options).unwrap());
    check(executable.plan()).unwrap();
    let left: Vec<&str> = executable.plan().graph().nodes.iter().map(|n| n.op.name()).collect();
    assert!(
        !left.contains(&"test.helu") && !left.contains(&"test.sum_and_product"),
        "{left:?}"
    );
    assert!(left.contains(&"test.cumulative"));
    let mut device = Device::new(2).unwrap();
    let mut store = runner::store(&graph, &inputs);
    let mut reference = inputs.clone();
    let mut losses = Vec::new();
    for step in 0..5 {
        runner::run(&mut executable, &mut device, &mut store, &inputs).unwrap();
        let found = runner::results(&executable, &store);
        let expected = evaluate(&graph, &reference).unwrap();
        for (name, array) in &expected {
            let largest = array.data.iter().fold(1.0f64, |m, x| m.max(x.abs()));
            for (&f, &e) in found[name].iter().zip(&array.data) {
                assert!(
                    (f64::from(f) - e).abs() < 1e-4 * largest,
                    "step {step}, `{name}`: {f}, not {e}"
                );
            }
        }
        losses.push(found["loss"][0]);
        reference.extend(expected);
    }
    assert!(losses.is_sorted_by(|a, b| a > b), "{losses:?}");
}
