//! Which operations share a step, so that a block of rows passes through all of them while it is in a cache.

use std::collections::HashMap;

use lessen_compile::{Placement, Plan, Storage};
use lessen_device::suite::check_plan as check;
use lessen_graph::ops::QuantizeRows;
use lessen_graph::{DType, Graph, Phase, Trace, ValueId, clip_coefficient, evaluate, global_norm};

use crate::plans::runner::run_once;
use crate::plans::runner::{Options, compile};
use crate::random::Random;

const OPTIONS: Options = Options {
    threads: 2,
    placement: Placement::Separate,
    budget: None,
};

fn plan(graph: &Graph) -> Plan {
    let plan = compile(graph, &OPTIONS).unwrap();
    check(&plan).unwrap();
    plan
}

/// The names of the operations of each step.
fn steps(plan: &Plan) -> Vec<Vec<&str>> {
    let name = |id: &lessen_graph::NodeId| plan.graph().nodes[id.index()].op.name();
    plan.steps()
        .iter()
        .map(|s| s.nodes.iter().map(name).collect())
        .collect()
}

#[test]
fn a_feed_forward_block_is_one_step_and_its_hidden_values_stay_in_scratch() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[8, 300, 16]);
    let key = trace.input("key", DType::U32, &[2]);
    let [up, down] = [[16, 64], [64, 16]].map(|shape| trace.state(&format!("{shape:?}"), DType::F32, &shape));
    let gamma = trace.state("gamma", DType::F32, &[16]);
    let bias = trace.state("bias", DType::F32, &[64]);
    let hidden = (x.rms_norm(gamma, 1e-5).matmul(up) + bias).gelu();
    let y = (x + hidden.matmul(down).dropout(0.1, key)).layer_norm(gamma, gamma, 1e-5);
    trace.output("y", y);
    let plan = plan(&trace.finish());
    let names = [
        "rms_norm",
        "matmul",
        "binary",
        "gelu",
        "matmul",
        "dropout",
        "binary",
        "layer_norm",
    ];
    assert_eq!(steps(&plan), [names]);
    let rows = plan.steps()[0].rows.unwrap();
    assert_eq!((rows.rows, rows.tile, rows.block % rows.tile), (2400, 128, 0));
    let in_arena = |v: &usize| matches!(plan.storage(ValueId(*v as u32)), Storage::Arena(_));
    let wide = |v: &usize| plan.graph().values[*v].ty.numel() > 2400 * 16;
    let hidden = (0..plan.graph().values.len()).filter(wide).filter(in_arena);
    assert_eq!(hidden.count(), 0, "no value of [2400, 64] lies in the arena");
}

#[test]
fn rows_in_8_bits_join_the_group_of_their_rows() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[3, 100, 70]);
    let z = x.softmax();
    let [codes, scale] = z.quantize_rows();
    trace.output("z", z);
    trace.output("y", codes.dequantize_rows(scale) + 1.0);
    let inputs = HashMap::from([("x".to_string(), Random::new(8).array(&[3, 100, 70], 4.0))]);
    let (plan, got) = run_once(&trace.finish(), &OPTIONS, &inputs);
    check(&plan).unwrap();
    let names = ["softmax", "quantize_rows", "dequantize_rows", "binary"];
    assert_eq!(steps(&plan), [names]);
    for (z, y) in got["z"].chunks(70).zip(got["y"].chunks(70)) {
        let most = z.iter().copied().fold(0.0, f32::max);
        let error = QuantizeRows::ERROR * f64::from(most) + f64::from(f32::EPSILON);
        let near = |(z, y): (&f32, &f32)| (f64::from(*y) - 1.0 - f64::from(*z)).abs() <= error;
        assert!(z.iter().zip(y).all(near), "{z:?} became {y:?}");
    }
}

#[test]
fn an_operation_that_needs_whole_values_begins_another_step() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[300, 8]);
    let y = x.tanh();
    // A sum over all rows is complete only after the step that adds it up.
    let centred = (y - y.sum_rows() * (1.0 / 300.0)).exp();
    // A weight is read whole.
    let weight = y.slice(0, 0, 8).exp();
    trace.output("z", centred.matmul(weight));
    let plan = plan(&trace.finish());
    assert_eq!(
        steps(&plan),
        [
            vec!["unary", "reduce"],
            vec!["binary"],
            vec!["binary", "unary"],
            vec!["unary"],
            vec!["matmul"]
        ]
    );
}

#[test]
fn large_values_do_not_join_a_group_of_few_rows() {
    let trace = Trace::new();
    let shapes = [[300, 200], [200, 100]];
    let gradients = shapes.map(|shape| trace.input(&format!("{shape:?}"), DType::F32, &shape));
    let short = trace.input("short", DType::F32, &[200]);
    trace.in_phase(Phase::Update, || {
        let clip = clip_coefficient(global_norm(&gradients), 1.0);
        trace.output("short", short * clip);
        for (i, gradient) in gradients.into_iter().enumerate() {
            trace.output(&i.to_string(), gradient * clip);
        }
    });
    let plan = plan(&trace.finish());
    for (i, shape) in shapes.iter().enumerate() {
        let value = plan.graph().outputs[i + 1].value;
        let producer = plan.graph().producer(value).unwrap();
        let step = plan.steps().iter().find(|s| s.nodes.contains(&producer)).unwrap();
        let rows = step.rows.unwrap().rows;
        assert_eq!(rows, shape[0], "the product of the gradient {i} and the coefficient");
    }
}

#[test]
fn a_value_that_a_group_reads_whole_is_not_written_over_by_the_group() {
    let (rows, columns) = (300, 5);
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[rows, columns]);
    let ids = trace.input("ids", DType::I32, &[rows]);
    let y = x.tanh();
    let sum = y.sum_rows();
    // The last readers of y: one reads rows anywhere, the other could take y's place.
    trace.output("picked", y.gather(ids));
    trace.output("scaled", y * sum);
    let graph = trace.finish();
    let mut random = Random::new(7);
    let inputs = HashMap::from([
        ("x".to_string(), random.array(&[rows, columns], 1.0)),
        ("ids".to_string(), random.ids(&[rows], rows)),
    ]);
    let (plan, got) = run_once(&graph, &OPTIONS, &inputs);
    check(&plan).unwrap();
    assert_eq!(steps(&plan), [vec!["unary", "reduce"], vec!["gather", "binary"]]);
    for (name, expected) in evaluate(&graph, &inputs).unwrap() {
        for (got, expected) in got[&name].iter().zip(&expected.data) {
            assert!(
                (f64::from(*got) - expected).abs() < 1e-5 * expected.abs().max(1.0),
                "{name}: {got} instead of {expected}"
            );
        }
    }
}
