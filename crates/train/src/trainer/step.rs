//! A step of training: one micro-batch or several, whose gradients are summed, and one update.

use super::Trainer;
use crate::beside::assigned;
use crate::function_graph::check_params;
use crate::graphs::{delayed, step_graph};
use crate::session::{Function, Inputs, Results};
use lessen_base::{Error, Result};
use lessen_compile::passes;
use lessen_device::{Host, HostArray};
use lessen_graph::Tensor;
use lessen_nn::names::{GRADIENT_NORM, KEY, LOSS, SHARE, lr_input, steps_input};
use lessen_nn::{BatchShape, Cx};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Inputs that are single numbers, by name.
pub(super) type Numbers = Vec<(String, [f32; 1])>;

/// Functions of a step for one batch layout.
#[derive(Clone, Copy)]
pub(super) struct StepFunctions {
    /// The step; with forward-fused updates it begins with the updates of the step before.
    pub step: Function,
    /// With forward-fused updates: the step without a delayed update before it.
    pub first: Option<Function>,
}

/// Report of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// The number of this step, from 1.
    pub step: u64,
    /// The loss before the update, over all batches of the step.
    pub loss: f32,
    /// The learning rate of parameters in no group; see [`Trainer::learning_rates`].
    pub lr: f64,
    /// Norm of the gradient before clipping; none without clipping.
    pub gradient_norm: Option<f32>,
    /// Time of the step.
    pub time: Duration,
}

/// A micro-batch of a step.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Share of the micro-batch in the loss.
    pub share: f32,
    /// Batch layout of the micro-batch, if the trainer has steps for several; see [`Trainer::add_step`].
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

    /// Returns the micro-batch in this layout.
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

    /// One step on one batch of a batch layout for which [`Trainer::add_step`] was called.
    ///
    /// # Errors
    /// As [`Trainer::step_on`].
    pub fn step_at(&mut self, shape: BatchShape, inputs: &Inputs<'_>) -> Result<StepReport> {
        self.step_on(&[Part::new(1.0, inputs).at(shape)])
    }

    /// One step on as many micro-batches as `accumulate` of the options says, or on fewer where the data ends; their
    /// shares sum to 1.
    ///
    /// # Errors
    /// As [`Trainer::step`]; no batch, or more of them than are accumulated; a share that is infinite or no number; a
    /// layout that [`Trainer::add_step`] was not called for. Everything is as before then.
    pub fn step_on(&mut self, batches: &[Part<'_>]) -> Result<StepReport> {
        let most = self.options.accumulate;
        if !(1..=most).contains(&batches.len()) {
            return Err(Error::user(format!(
                "a step on {} batches, but accumulate = {most}; give at least one and at most {most}",
                batches.len()
            )));
        }
        if let Some(part) = batches.iter().find(|part| !part.share.is_finite()) {
            return Err(Error::user(format!(
                "a batch has the share {} in the loss; the shares of a step are numbers that sum to 1",
                part.share
            )));
        }
        if let Some(part) = batches.iter().find(|part| !self.steps.contains_key(&part.shape)) {
            return Err(Error::user(match part.shape {
                Some(shape) => {
                    format!("there is no step for batches of the layout {shape:?}; call Trainer::add_step for it")
                }
                None => {
                    "this trainer has steps for several layouts of batches; say that of each with Part::at".to_string()
                }
            }));
        }
        let before = self.carried_states()?;
        let result = self.run_batches(batches);
        if result.is_err() {
            // Micro-batches before the one that failed have changed states.
            for name in &self.gradient_sums {
                self.session.clear_state(name)?;
            }
            for (name, data) in self.carried.iter().zip(&before) {
                self.session.set_state(name, data)?;
            }
        }
        result
    }

    /// The states that micro-batches assign, as they are before a step.
    fn carried_states(&self) -> Result<Vec<HostArray>> {
        self.carried.iter().map(|name| self.session.state(name)).collect()
    }

    /// Adds the step for another batch layout, if there is none yet: `loss` is the trainer's function for that layout,
    /// over the same parameters. It is planned within the memory that is allocated, if possible.
    ///
    /// # Errors
    /// A budget that is too small for it, a graph that the machine's memory cannot hold, and a parameter that the
    /// trainer does not have.
    pub fn add_step(&mut self, shape: BatchShape, loss: impl Fn(Cx) -> Tensor) -> Result<()> {
        if self.steps.contains_key(&Some(shape)) {
            return Ok(());
        }
        let traced = step_graph(&self.options, Some(self.session.view().centred()), loss)?;
        check_params(self.session.params(), &traced.params)?;
        if self.apply.is_some() {
            let own: Vec<String> = assigned(&traced.graph).map(String::from).collect();
            let is_new = |name: &String| !self.gradient_sums.contains(name) && !self.carried.contains(name);
            let new: Vec<String> = own.into_iter().filter(is_new).collect();
            self.carried.extend(new);
        }
        let (step, delayed) = delayed(traced.graph, &self.late)?;
        let step = self.add(&step, self.options.placement)?;
        let first = delayed.map(|delayed| self.add(&delayed.first, self.options.placement));
        let first = first.transpose()?;
        self.steps.insert(Some(shape), StepFunctions { step, first });
        Ok(())
    }

    /// Whether there is a step for a batch layout.
    pub fn has_step(&self, shape: BatchShape) -> bool {
        self.steps.contains_key(&Some(shape))
    }

    fn run_batches(&mut self, batches: &[Part<'_>]) -> Result<StepReport> {
        let begun = Instant::now();
        let rates = self.learning_rates();
        let inputs = rates.iter().enumerate();
        let mut numbers: Numbers = inputs.map(|(group, lr)| (lr_input(group), [*lr as f32])).collect();
        numbers.extend(self.step_numbers());
        let scalars: Vec<(&str, Host<'_>)> = hosts(&numbers).chain(self.pending.iter().flat_map(hosts)).collect();
        let (mut loss, mut gradient_norm) = (0.0, None);
        for (index, part) in batches.iter().enumerate() {
            let Some(&StepFunctions { step, first }) = self.steps.get(&part.shape) else {
                return Err(Error::internal("a batch of a layout without a step"));
            };
            let step = first.filter(|_| self.pending.is_none()).unwrap_or(step);
            let key = self.key(index);
            let share = [part.share];
            let mut all = scalars.clone();
            all.extend([(KEY, Host::U32(&key)), (SHARE, Host::F32(&share))]);
            all.extend_from_slice(part.inputs);
            let results = self.session.run(step, &all)?;
            loss += share[0] * results.scalar(LOSS)? as f32;
            gradient_norm = norm_in(&results)?;
        }
        if let Some(apply) = self.apply {
            gradient_norm = norm_in(&self.session.run(apply, &scalars)?)?;
        }
        if self.flush.is_some() {
            let late = |(name, number): (String, [f32; 1])| (passes::pending(&name), number);
            self.pending = Some(numbers.into_iter().map(late).collect());
        }
        self.done = self.done.saturating_add(1);
        Ok(StepReport {
            step: self.done,
            loss,
            lr: rates[0],
            gradient_norm,
            time: begun.elapsed(),
        })
    }

    /// Runs the delayed update of the last step, if it has not run yet: before parameters or states are used between
    /// steps.
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
        let number = |joined: u64| {
            [self
                .done
                .saturating_add(1)
                .saturating_sub(self.options.joined_after(joined)) as f32]
        };
        joined
            .into_iter()
            .map(|joined| (steps_input(joined), number(joined)))
            .collect()
    }

    /// The random key of batch number `index` of the next step.
    pub(super) fn key(&self, index: usize) -> [u32; 2] {
        let draw = self
            .done
            .wrapping_mul(self.options.accumulate as u64)
            .wrapping_add(index as u64);
        [folded(self.options.seed), draw as u32]
    }
}

/// Norm of the gradient in the results of an update; none if it clips nothing.
fn norm_in(results: &Results) -> Result<Option<f32>> {
    if results.names().any(|name| name == GRADIENT_NORM) {
        Ok(Some(results.scalar(GRADIENT_NORM)? as f32))
    } else {
        Ok(None)
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
