//! Random inputs: values that a graph can read.

use lessen_device::random_inputs;
use lessen_graph::{DType, Trace};

#[test]
fn indices_are_valid_in_every_table_that_they_are_read_from() {
    let trace = Trace::new();
    let ids = trace.input("ids", DType::I32, &[40, 50]);
    let mask = trace.input("mask", DType::I32, &[2000]);
    let x = trace.input("x", DType::F32, &[2000]);
    let table = |name: &str, rows: usize| trace.state(name, DType::F32, &[rows, 3]);
    let (small, large) = (table("small", 30), table("large", 90));
    trace.output("y", small.gather(ids.reshape(&[2000])).sum());
    trace.output("z", large.gather(ids).sum());
    trace.output("kept", mask.cast(DType::F32) * x);
    let graph = trace.finish();
    let inputs = random_inputs(&graph, 4);
    let names: Vec<&str> = inputs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ids", "mask", "x"]);
    let range = |input: usize| {
        let data = &inputs[input].1.data;
        let least = data.iter().copied().fold(f64::INFINITY, f64::min);
        (least, data.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    };
    // Of 2000 numbers below 30 each one is drawn.
    assert_eq!(range(0), (0.0, 29.0));
    assert_eq!(range(1), (0.0, 1.0));
    let (least, most) = range(2);
    assert!(least < -1.5 && most > 1.5);
    assert_eq!(inputs, random_inputs(&graph, 4));
}
