//! Handles of graphs under construction: closures and functions without lifetimes, and what ends with a trace.

use lessen_graph::{Array, DType, Tensor, Trace, TraceRef, evaluate};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// A function that is generic over layers.
fn twice(layer: impl Fn(TraceRef, Tensor) -> Tensor, trace: TraceRef, x: Tensor) -> Tensor {
    layer(trace, layer(trace, x))
}

fn doubled(trace: TraceRef, x: Tensor) -> Tensor {
    x * trace.full(DType::F32, &[], 2.0)
}

#[test]
fn closures_in_variables_and_functions_over_them_are_layers() {
    let scale = 3.0;
    let layer = |_: TraceRef, x| x * scale;
    let layers: Vec<Box<dyn Fn(TraceRef, Tensor) -> Tensor>> = vec![Box::new(layer), Box::new(doubled)];
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2]);
    let y = layers.iter().fold(x, |x, layer| layer(*trace, x));
    trace.output("y", twice(layer, *trace, twice(doubled, *trace, y)));
    let x = HashMap::from([("x".to_string(), Array::f32(&[2], vec![1.0, -2.0]))]);
    assert_eq!(evaluate(&trace.finish(), &x).unwrap()["y"].data, [216.0, -432.0]);
}

#[test]
fn traces_of_one_thread_keep_apart_and_end_in_any_order() {
    let (first, second) = (Trace::new(), Trace::new());
    let (a, b) = (first.input("a", DType::F32, &[2]), second.input("b", DType::F32, &[3]));
    assert_ne!(a.trace(), b.trace());
    first.output("y", a + 1.0);
    assert_eq!(first.finish().inputs[0].name, "a");
    second.output("y", b + 1.0);
    assert_eq!(second.finish().inputs[0].name, "b");
}

#[test]
fn a_tensor_of_a_finished_graph_is_refused() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2]);
    drop(trace);
    let panic = catch_unwind(AssertUnwindSafe(|| x + 1.0)).unwrap_err();
    assert!(
        panic
            .downcast_ref::<&str>()
            .unwrap()
            .contains("whose graph is finished")
    );
    let other = Trace::new();
    let y = other.input("y", DType::F32, &[2]);
    let error = other.attempt(|| y + x).unwrap_err().to_string();
    assert!(
        error.contains("handles.rs:") && error.contains("a tensor of another trace"),
        "{error}"
    );
}

#[test]
fn kept_values_end_with_their_trace() {
    let value = Rc::new(7);
    let trace = Trace::new();
    let place = trace.keep(value.clone());
    assert_eq!(trace.kept::<i32>(place).as_deref(), Some(&7));
    assert_eq!(trace.kept::<u8>(place), None);
    assert_eq!(Rc::strong_count(&value), 2);
    drop(trace);
    assert_eq!(Rc::strong_count(&value), 1);
}
