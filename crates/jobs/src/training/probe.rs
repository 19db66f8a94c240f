//! How long the steps and evaluations of a run take, before it begins.

use super::Request;
use super::remaining::{RemainingPhases, read_shared};
use super::start::Start;
use crate::planning::memory_watch::MemoryWatch;
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_task::device::NewBackend;
use lessen_task::evaluation::evaluate;
use std::time::{Duration, Instant};

/// Steps before times are taken: the first ones compile the layouts of their batches.
const WARM: u64 = 3;

/// The most steps of a probe.
const MOST: u64 = 200;

/// The time of a run's steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// Seconds before the first step: compilation, first weights, and the data that runs do not share.
    pub beginning: f64,
    /// Seconds of a step.
    pub step: f64,
    /// Seconds of an evaluation.
    pub evaluation: f64,
    /// Steps of an epoch.
    pub epoch: u64,
}

/// Trains the first steps of a new run for about `time`, and evaluates once; nothing is written.
///
/// # Errors
/// As [`train`](super::train) before its first step.
pub(crate) fn probe(request: &Request, time: Duration, new_backend: &NewBackend) -> Result<Pace> {
    let start = Start::of(request)?;
    read_shared(&start)?;
    let begun = Instant::now();
    let remaining = RemainingPhases::plan(&start, &mut MemoryWatch::begin(), new_backend)?;
    let first = remaining.phases.into_iter().next();
    let (phase, plans) = first.ok_or_else(|| Error::internal("a run has no training phase"))?;
    let (mut trainer, _) = phase.trainer(|| Ok(remaining.backend), plans, remaining.from)?;
    trainer.session()?.reserve()?;
    let train = &phase.task.config().train;
    let epoch = phase.sources.training.batches_per_epoch();
    let epoch = epoch.div_ceil(train.accumulate as u64).max(1);
    let mut batches = phase.batches_from(0)?;
    let beginning = begun.elapsed();
    let (mut timed, mut steps) = (Instant::now(), 0);
    for step in 0..phase.end().min(MOST) {
        if step == WARM {
            (timed, steps) = (Instant::now(), 0);
        }
        let made = phase.next_batches(step, &mut batches)?;
        phase.step(&mut trainer, Ok(&made))?;
        steps += 1;
        if step > WARM && timed.elapsed() >= time {
            break;
        }
    }
    let step = timed.elapsed().as_secs_f64() / f64::from(u32::try_from(steps).unwrap_or(u32::MAX).max(1));
    let timed = Instant::now();
    let mut functions = phase.evaluation(&trainer);
    let (task, dev) = (&phase.task, &phase.sources.dev);
    evaluate(
        trainer.session()?,
        &mut functions,
        (task.model(), task.goal()),
        dev.as_ref(),
        &Group::alone(),
    )?;
    Ok(Pace {
        beginning: beginning.as_secs_f64(),
        step,
        evaluation: timed.elapsed().as_secs_f64(),
        epoch,
    })
}
