//! Random programs over all operations, forward and backward.

use lessen_compile::{Options, Placement};
use lessen_graph::evaluate;

use super::plan_checker::check;
use super::programs::program;
use super::runner::{close, load, same, text};
use super::{Check, Found, NewDevice};

pub(super) const CHECKS: &[Check] = &[Check {
    name: "random programs compute what the reference evaluator does, and the same bits at the floor",
    run: random_programs,
}];

/// Programs of a run of the suite.
const PROGRAMS: u64 = 60;

fn random_programs(new: NewDevice<'_>) -> Found {
    for seed in 0..PROGRAMS {
        one(new, seed).map_err(|wrong| format!("seed {seed}: {wrong}"))?;
    }
    Ok(())
}

fn one(new: NewDevice<'_>, seed: u64) -> Found {
    let program = program(seed);
    let (graph, inputs) = (&program.graph, &program.inputs);
    let expected = evaluate(graph, inputs).map_err(text)?;
    let placements = [Placement::Separate, Placement::BackwardFused, Placement::ForwardFused];
    let placement = |i: u64| placements[((seed + i) % 3) as usize];
    let free = Options {
        placement: placement(0),
        ..Options::default()
    };
    let mut device = new(1 + seed as usize % 3);
    let loaded = load(device.as_mut(), graph, &free, inputs)?;
    check(&device.plan(loaded.program))?;
    loaded.run(device.as_mut(), inputs)?;
    let found = loaded.results(device.as_ref())?;
    let tolerance = if program.coarse { (2e-2, 1e-2) } else { (5e-5, 5e-6) };
    for (name, array) in &expected {
        close(name, &found[name], array, tolerance)?;
    }
    let floor = Options {
        placement: placement(1),
        ..Options::default()
    };
    let mut other = new(2);
    let floor = Options {
        budget: Some(other.floor_bytes(graph, &floor).map_err(text)?),
        ..floor
    };
    let tight = load(other.as_mut(), graph, &floor, inputs)?;
    check(&other.plan(tight.program))?;
    tight.run(other.as_mut(), inputs)?;
    same(
        &tight.bits(other.as_ref())?,
        &loaded.bits(device.as_ref())?,
        "at the floor",
    )
}
