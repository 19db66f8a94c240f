//! Costs of steps by the rates of a device.

use lessen_compile::{Options, Target, compile};
use lessen_cpu::CpuTarget;
use lessen_graph::{DType, Trace};

/// Seconds per element for multiplying an array by its sum, in the plan step after the sum.
fn seconds_of_scaling(side: usize, target: &CpuTarget) -> f64 {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[side, side]);
    trace.output("y", x * x.sum());
    let plan = compile(&trace.finish(), &Options::default(), target).unwrap();
    let [_, scaled] = plan.estimated_step_seconds() else {
        panic!("two steps, not {}", plan.steps().len())
    };
    (scaled - target.costs().rates().step_overhead_seconds) / (side * side) as f64
}

#[test]
fn what_the_step_before_has_read_comes_from_a_cache_where_it_fits() {
    let target = CpuTarget { threads: 2 };
    let elements = target.limits().cache_bytes / 4;
    let side = (elements as f64).sqrt() as usize;
    let (small, large) = (
        seconds_of_scaling(side / 2, &target),
        seconds_of_scaling(2 * side, &target),
    );
    let read = 4.0 / target.costs().rates().memory;
    assert!(
        ((large - small) / read - 1.0).abs() < 1e-3,
        "{large} s, {small} s, {read} s"
    );
}
