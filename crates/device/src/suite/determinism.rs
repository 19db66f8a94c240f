//! Bits depend on inputs and states alone.

use lessen_compile::Options;

use super::budgets::training;
use super::programs::program;
use super::runner::{load, same};
use super::{Check, Found, NewDevice};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "runs from the same states have the same bits",
        run: repeated,
    },
    Check {
        name: "bits do not depend on the number of workers",
        run: workers,
    },
    Check {
        name: "two programs in turns have the bits of each alone",
        run: in_turns,
    },
];

/// Runs from the same states.
const RUNS: usize = 12;

fn repeated(new: NewDevice<'_>) -> Found {
    let (graph, inputs) = training();
    let mut device = new(3);
    let loaded = load(device.as_mut(), &graph, &Options::default(), &inputs)?;
    loaded.run(device.as_mut(), &inputs)?;
    let expected = loaded.bits(device.as_ref())?;
    for run in 1..RUNS {
        loaded.set_states(device.as_mut(), &inputs)?;
        loaded.run(device.as_mut(), &inputs)?;
        same(&loaded.bits(device.as_ref())?, &expected, &format!("in run {run}"))?;
    }
    Ok(())
}

fn workers(new: NewDevice<'_>) -> Found {
    for seed in 100..110 {
        let program = program(seed);
        let run = |workers: usize| {
            let mut device = new(workers);
            let loaded = load(device.as_mut(), &program.graph, &Options::default(), &program.inputs)?;
            loaded.run(device.as_mut(), &program.inputs)?;
            loaded.bits(device.as_ref())
        };
        let expected = run(1)?;
        for count in [2, 3, 5] {
            same(&run(count)?, &expected, &format!("with {count} workers, seed {seed}"))?;
        }
    }
    Ok(())
}

fn in_turns(new: NewDevice<'_>) -> Found {
    let (graph, inputs) = training();
    let other = program(7);
    let mut alone = new(2);
    let loaded = load(alone.as_mut(), &graph, &Options::default(), &inputs)?;
    (0..3).try_for_each(|_| loaded.run(alone.as_mut(), &inputs))?;
    let expected = loaded.bits(alone.as_ref())?;
    let mut device = new(2);
    let loaded = load(device.as_mut(), &graph, &Options::default(), &inputs)?;
    let beside = load(device.as_mut(), &other.graph, &Options::default(), &other.inputs)?;
    for _ in 0..3 {
        loaded.run(device.as_mut(), &inputs)?;
        beside.run(device.as_mut(), &other.inputs)?;
    }
    same(&loaded.bits(device.as_ref())?, &expected, "beside another program")
}
