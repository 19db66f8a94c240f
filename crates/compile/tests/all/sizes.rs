//! Sizes whose sums do not fit are errors.

use std::sync::Arc;

use lessen_compile::{
    Buffer, CostModel, Limits, Lowering, Options, RowBlocks, RowGroup, Scratch, Target, compile, floor_bytes,
};
use lessen_compile::{lower_bound, pack};
use lessen_cpu::CpuTarget;
use lessen_graph::{DType, Graph, Op, Tensor, Trace, Type};

const TARGET: CpuTarget = CpuTarget { threads: 2 };

/// Checks that neither a plan nor a floor of a graph is found, and that the error says why.
fn refused(graph: &Graph, target: &dyn Target) {
    for budget in [None, Some(1 << 30)] {
        let options = Options {
            budget,
            ..Options::default()
        };
        let errors = [
            compile(graph, &options, target).map(|_| ()),
            floor_bytes(graph, &options, target).map(|_| ()),
        ];
        for error in errors {
            let error = error.expect_err("no machine has the memory").to_string();
            assert!(error.contains("which no machine has"), "{error}");
        }
    }
}

/// A graph with `count` values of `2^53` numbers, all of them results.
fn live_values(count: usize) -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[1 << 43, 1 << 10]);
    for i in 0..count {
        trace.output(&format!("y.{i}"), x * (i + 2) as f64);
    }
    trace.finish()
}

#[test]
fn live_values_whose_bytes_do_not_add_up_are_an_error() {
    for count in [16, 256, 512, 513] {
        refused(&live_values(count), &TARGET);
    }
}

#[test]
fn states_whose_bytes_do_not_add_up_are_an_error() {
    let trace = Trace::new();
    for i in 0..512 {
        let state = trace.state(&format!("s.{i}"), DType::F32, &[1 << 53]);
        trace.assign(state, state * 2.0);
    }
    refused(&trace.finish(), &TARGET);
}

#[test]
fn a_step_whose_bytes_do_not_add_up_is_an_error_with_and_without_updates() {
    let trace = Trace::new();
    let mut x = trace.input("x", DType::F32, &[1 << 43, 1 << 10]);
    let params: Vec<Tensor> = (0..40)
        .map(|i| trace.state(&format!("w.{i}"), DType::F32, &[1 << 10, 1 << 10]))
        .collect();
    for w in &params {
        x = (x + x.matmul(*w).gelu()).tanh();
    }
    let loss = (x * x).mean();
    trace.output("loss", loss);
    for (p, gradient) in params.iter().zip(loss.grad(&params)) {
        trace.assign(*p, *p - gradient);
    }
    refused(&trace.finish(), &TARGET);
}

#[test]
fn views_take_no_memory() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[]);
    let wide: Vec<Tensor> = (0..64).map(|_| x.broadcast_to(&[1 << 53])).collect();
    for (i, wide) in wide.iter().enumerate() {
        trace.output(&format!("y.{i}"), wide.slice(0, i, 1));
    }
    compile(&trace.finish(), &Options::default(), &TARGET).expect("views and 64 numbers");
}

/// A device whose kernels ask for all memory there is.
struct Greedy;

impl Target for Greedy {
    fn limits(&self) -> Limits {
        TARGET.limits()
    }

    fn supports(&self, op: &dyn Op) -> bool {
        TARGET.supports(op)
    }

    fn lower(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Arc<Lowering> {
        Arc::new(Lowering {
            scratch: Scratch {
                worker: usize::MAX,
                shared: usize::MAX,
            },
            ..Lowering::clone(&TARGET.lower(op, inputs, outputs))
        })
    }

    fn blocks(&self, group: &RowGroup) -> RowBlocks {
        TARGET.blocks(group)
    }

    fn costs(&self) -> &dyn CostModel {
        TARGET.costs()
    }
}

#[test]
fn scratch_that_does_not_fit_is_an_error() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[256, 64]);
    let mut y = x;
    for i in 0..4 {
        y = y.matmul(trace.state(&format!("w.{i}"), DType::F32, &[64, 64])).gelu();
    }
    trace.output("y", y);
    refused(&trace.finish(), &Greedy);
}

#[test]
fn buffers_that_do_not_fit_take_the_greatest_number_of_bytes() {
    let live = |count: usize| -> Vec<Buffer> {
        let buffer = Buffer {
            bytes: 1 << 55,
            first: 0,
            last: 1,
        };
        vec![buffer; count]
    };
    for count in [512, 1000] {
        assert_eq!(pack(&live(count)).1, usize::MAX);
        assert_eq!(lower_bound(&live(count)), usize::MAX);
    }
    assert_eq!(pack(&live(64)).1, 64 << 55);
    assert_eq!(lower_bound(&live(64)), 64 << 55);
}
