//! A step of training: one batch or several, whose gradients are summed, and one update.

use super::Trainer;
use crate::graphs::{check_params, delayed, step_graph};
use crate::session::{Function, Inputs};
use lessen_base::Result;
use lessen_compile::passes;
use lessen_device::Host;
use lessen_graph::Tensor;
use lessen_nn::optimizer::steps_input;
use lessen_nn::{BatchShape, Context};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Inputs that are single numbers, by name.
pub(super) type Numbers = Vec<(String, [f32; 1])>;

/// The graphs of a step for one layout of batches.
#[derive(Clone, Copy)]
pub(super) struct StepFunctions {
    /// The step; with forward-fused updates, behind the update of the one before.
    pub step: Function,
    /// With forward-fused updates, the step where no update waits.
    pub first: Option<Function>,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// The number of this step, from 1.
    pub step: u64,
    /// The loss before the update, over all batches of the step.
    pub loss: f32,
    /// The learning rate.
    pub lr: f64,
    /// The norm of the gradient before it was clipped, where it is clipped.
    pub gradient_norm: Option<f32>,
    /// How long it took.
    pub time: Duration,
}

/// A batch of a step.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Its share in the loss.
    pub share: f32,
    /// Its layout, where the trainer has steps for several; see [`Trainer::add_step`].
    pub shape: Option<BatchShape>,
    /// The arrays; there may be more than the function declared.
    pub inputs: &'a Inputs<'a>,
}

impl<'a> Part<'a> {
    /// A batch with this share in the loss.
    pub fn new(share: f32, inputs: &'a Inputs<'a>) -> Part<'a> {
        let shape = None;
        Part { share, shape, inputs }
    }

    /// The same in this layout.
    pub fn at(self, shape: BatchShape) -> Part<'a> {
        let shape = Some(shape);
        Part { shape, ..self }
    }
}

impl Trainer {
    /// One step on one batch. `inputs` may hold more than the function declared.
    ///
    /// # Errors
    /// An input that is missing or of another type than declared, an index out of range. Parameters, states and the
    /// number of steps are as before then.
    pub fn step(&mut self, inputs: &Inputs<'_>) -> Result<StepReport> {
        self.step_on(&[Part::new(1.0, inputs)])
    }

    /// One step on one batch of a layout that [`Trainer::add_step`] was called for.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    ///
    /// # Panics
    /// As [`Trainer::step_on`].
    pub fn step_at(&mut self, shape: BatchShape, inputs: &Inputs<'_>) -> Result<StepReport> {
        self.step_on(&[Part::new(1.0, inputs).at(shape)])
    }

    /// One step on as many batches as the options' `accumulate` says, or on fewer where the data ends; their shares sum
    /// to 1.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    ///
    /// # Panics
    /// Without a batch, with more of them, and with one of a layout that [`Trainer::add_step`] was not called for.
    pub fn step_on(&mut self, batches: &[Part<'_>]) -> Result<StepReport> {
        assert!(
            (1..=self.options.accumulate).contains(&batches.len()),
            "at least one batch, and at most as many as are accumulated"
        );
        let result = self.run_batches(batches);
        if result.is_err() {
            // Batches before the one that failed have added to the sums.
            for name in &self.gradient_sums {
                self.session.clear_state(name)?;
            }
        }
        result
    }

    /// Adds the step for batches of another layout than those before, if there is none yet: `loss` is the trainer's
    /// function for that layout, over the same parameters. It gets along with the memory that is allocated, if it can.
    ///
    /// # Errors
    /// A budget that is too small for it, a graph that the machine's memory cannot hold, and a parameter that the
    /// trainer does not have.
    pub fn add_step(&mut self, shape: BatchShape, loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>) -> Result<()> {
        if self.steps.contains_key(&Some(shape)) {
            return Ok(());
        }
        let traced = step_graph(&self.options, Some(self.session.reading().centred()), loss)?;
        check_params(self.session.params(), &traced.params)?;
        let (step, delayed) = delayed(traced.graph, &self.late)?;
        let step = self.add(&step, self.options.placement)?;
        let first = delayed.map(|delayed| self.add(&delayed.first, self.options.placement));
        let first = first.transpose()?;
        self.steps.insert(Some(shape), StepFunctions { step, first });
        Ok(())
    }

    /// Whether [`Trainer::add_step`] was called for a layout, or it is the first one.
    pub fn has_step(&self, shape: BatchShape) -> bool {
        self.steps.contains_key(&Some(shape))
    }

    fn run_batches(&mut self, batches: &[Part<'_>]) -> Result<StepReport> {
        let begun = Instant::now();
        let scheduled = self.done.saturating_sub(self.options.schedule_start);
        let lr = self
            .options
            .schedule
            .lr(usize::try_from(scheduled).unwrap_or(usize::MAX));
        let mut numbers = vec![("lr".to_string(), [lr as f32])];
        numbers.extend(self.step_numbers());
        let scalars: Vec<(&str, Host<'_>)> = hosts(&numbers).chain(self.pending.iter().flat_map(hosts)).collect();
        let (mut loss, mut gradient_norm) = (0.0, None);
        for (index, part) in batches.iter().enumerate() {
            let StepFunctions { step, first } = self.steps[&part.shape];
            let step = first.filter(|_| self.pending.is_none()).unwrap_or(step);
            let key = self.key(index);
            let share = [part.share];
            let mut all = scalars.clone();
            all.extend([("key", Host::U32(&key)), ("share", Host::F32(&share))]);
            all.extend_from_slice(part.inputs);
            let results = self.session.run(step, &all)?;
            loss += share[0] * results.scalar("loss").unwrap_or(f32::NAN);
            gradient_norm = results.scalar("gradient_norm");
        }
        if let Some(apply) = self.apply {
            gradient_norm = self.session.run(apply, &scalars)?.scalar("gradient_norm");
        }
        if self.flush.is_some() {
            let late = |(name, number): (String, [f32; 1])| (passes::pending(&name), number);
            self.pending = Some(numbers.into_iter().map(late).collect());
        }
        self.done += 1;
        Ok(StepReport {
            step: self.done,
            loss,
            lr,
            gradient_norm,
            time: begun.elapsed(),
        })
    }

    /// Runs the update of the last step, if it has not run yet: before parameters or states are used beside the steps.
    pub(super) fn flush(&mut self) -> Result<()> {
        if let (Some(flush), Some(numbers)) = (self.flush, &self.pending) {
            let inputs: Vec<(&str, Host<'_>)> = hosts(numbers).collect();
            self.session.run(flush, &inputs)?;
            self.pending = None;
        }
        Ok(())
    }

    /// The inputs with the number of the step that comes, counted since the parameters joined.
    fn step_numbers(&self) -> Numbers {
        let joined: BTreeSet<u64> = self.options.joined.values().copied().chain([0]).collect();
        let number = |joined: u64| [(self.done + 1).saturating_sub(self.options.joined_after(joined)) as f32];
        joined
            .into_iter()
            .map(|joined| (steps_input(joined), number(joined)))
            .collect()
    }

    /// The random key of batch number `index` of the next step.
    pub(super) fn key(&self, index: usize) -> [u32; 2] {
        let draw = self.done * self.options.accumulate as u64 + index as u64;
        [folded(self.options.seed), draw as u32]
    }
}

/// Numbers as inputs.
fn hosts(numbers: &Numbers) -> impl Iterator<Item = (&str, Host<'_>)> {
    numbers.iter().map(|(name, number)| (name.as_str(), Host::F32(number)))
}

/// A seed as one word of a dropout key. Seeds that differ in their high halves alone, or in their low ones alone, give
/// different words: the factor is odd.
fn folded(seed: u64) -> u32 {
    seed as u32 ^ ((seed >> 32) as u32).wrapping_mul(0x9E37_79B9)
}
