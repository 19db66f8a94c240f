//! The steps of one loss: their functions, their update, and how many of them are done.

use super::group_functions::GroupFunctions;
use super::part::{Part, StepReport};
use crate::carrier::GroupCarrier;
use crate::exchanges::Exchanges;
use crate::inputs::check_once;
use crate::options::{NonFinite, TrainerOptions};
use crate::session::{Function, Inputs, Results, Session};
use crate::update_graphs::Late;
use lessen_base::{Error, Result};
use lessen_compile::passes;
use lessen_device::{Host, HostArray};
use lessen_nn::BatchShape;
use lessen_nn::names::{FINITE, GRADIENT_NORM, KEY, LOSS, SHARE, is_reserved, lr_input, steps_input};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

/// Inputs that are single numbers, by name.
type Numbers = Vec<(String, [f32; 1])>;

/// Functions of a step for one batch layout.
#[derive(Clone, Copy)]
pub(super) struct StepFunctions {
    /// The step; with forward-fused updates it begins with the updates of the step before.
    pub step: Function,
    /// With forward-fused updates: the step without a delayed update before it.
    pub first: Option<Function>,
    /// With groups, where this process computes several micro-batches: the last one, which ends in the update. Where it
    /// computes one, `step` is that.
    pub last: Option<Function>,
    /// What tells its loss from others; see [`LossGraph::mark`](crate::step_graph::LossGraph::mark).
    pub mark: u64,
}

/// The steps of one loss with their update.
pub(super) struct Steps {
    pub options: TrainerOptions,
    /// Functions by batch layout; without a layout if all batches have the same.
    pub functions: HashMap<Option<BatchShape>, StepFunctions>,
    /// With accumulation: the update, which runs after the last micro-batch; with groups, where there is none.
    pub apply: Option<Function>,
    /// With forward-fused updates: the delayed updates, which run before parameters are used.
    pub flush: Option<Function>,
    /// The states whose updates are delayed.
    pub late: Late,
    /// What carries operations of several ranks.
    pub carrier: Arc<GroupCarrier>,
    /// The exchanges of a step, in their order.
    pub exchanges: Exchanges,
    pub gradient_sums: Vec<String>,
    pub groups: GroupFunctions,
    /// Whether a function has all groups of this process, which run side by side.
    pub side_by_side: bool,
    /// States that every micro-batch assigns, beside the sums of gradients; none without accumulation.
    pub carried: Vec<String>,
    /// Numbers that the delayed update of the last step reads, if it has not run yet.
    pub pending: Option<Numbers>,
    /// The learning rate that the caller has set in place of the schedule.
    pub lr: Option<f64>,
    /// The learning rates that the caller has set in place of all schedules.
    pub rates: Option<Vec<f64>>,
    /// Steps done.
    pub done: u64,
    /// The sentence about a step that was not finite, from which no step goes on.
    pub broken: Option<String>,
}

/// The values of a step that is done, or of a part of it.
#[derive(Clone, Default)]
pub(super) struct Sums {
    pub loss: f32,
    pub gradient_norm: Option<f32>,
    pub values: BTreeMap<String, f64>,
    pub arrays: BTreeMap<String, Vec<HostArray>>,
    /// Whether the update found a number that is not finite, and left everything as it was.
    pub skipped: bool,
}

impl Steps {
    /// The learning rates of the next step: of parameters in no group, and of each group.
    pub fn learning_rates(&self) -> Vec<f64> {
        match (&self.rates, self.lr) {
            (Some(rates), _) => rates.clone(),
            (None, Some(lr)) => self.options.learning_rates_beside(lr, self.done),
            (None, None) => self.options.learning_rates(self.done),
        }
    }

    /// Sets the learning rate in place of the schedule.
    ///
    /// # Errors
    /// A rate that is negative or not finite.
    pub fn set_lr(&mut self, lr: f64) -> Result<()> {
        check_rate(lr)?;
        self.lr = Some(lr);
        Ok(())
    }

    /// Sets all learning rates in place of the schedules.
    ///
    /// # Errors
    /// Another number of rates than one and one of each group; a rate that is negative or not finite.
    pub fn set_rates(&mut self, rates: &[f64]) -> Result<()> {
        let wanted = 1 + self.options.groups.len();
        if rates.len() != wanted {
            return Err(Error::user(format!(
                "{} learning rates are given to a training that takes {wanted}, the first one for parameters in no group",
                rates.len()
            )));
        }
        rates.iter().try_for_each(|lr| check_rate(*lr))?;
        self.rates = Some(rates.to_vec());
        Ok(())
    }

    /// Goes on after `done` steps, whatever was before.
    pub fn go_on(&mut self, done: u64) {
        self.done = done;
        self.broken = None;
    }

    /// Refuses to go on from a step that was not finite.
    pub fn check_whole(&self) -> Result<()> {
        self.broken.as_ref().map_or(Ok(()), |why| {
            Err(Error::user(format!(
                "{why}; its update has run, so go on from a checkpoint or snapshot of an earlier step"
            )))
        })
    }

    /// One step on micro-batches. After an error everything is as it was, but for what [`NonFinite::Stop`] says.
    pub fn step(&mut self, session: &mut Session, batches: &[Part<'_>]) -> Result<StepReport> {
        self.check_batches(batches)?;
        let before = self.carried.iter().map(|name| session.state(name));
        let before: Vec<HostArray> = before.collect::<Result<_>>()?;
        let begun = Instant::now();
        let rates = self.learning_rates();
        if let Some(lr) = rates.iter().find(|lr| !(lr.is_finite() && **lr >= 0.0)) {
            let step = self.done.saturating_add(1);
            return Err(Error::user(format!(
                "the learning rate of step {step} is {lr}; it is a finite number from 0"
            )));
        }
        self.carrier.begin_run();
        let result = self.run(session, batches, &before, &rates);
        if let Err(error) = self.carrier.end_run() {
            self.broken = Some(error.to_string());
            return Err(error);
        }
        if result.as_ref().map_or(true, |sums| sums.skipped) {
            // Micro-batches before the end have changed states.
            self.restore(session, &before)?;
        }
        let sums = result?;
        self.done = self.done.saturating_add(1);
        Ok(StepReport {
            step: self.done,
            loss: sums.loss,
            lr: rates[0],
            gradient_norm: sums.gradient_norm,
            values: sums.values,
            arrays: sums.arrays,
            skipped: sums.skipped,
            time: begun.elapsed(),
        })
    }

    fn check_batches(&self, batches: &[Part<'_>]) -> Result<()> {
        let (all, most) = (self.options.accumulate, self.options.own_batches().len());
        let least = usize::from(self.options.ranks == 1);
        if !(least..=most).contains(&batches.len()) {
            let here = if most == all {
                String::new()
            } else {
                format!(", of which this process computes {most}")
            };
            return Err(Error::user(format!(
                "a step on {} batches, but accumulate = {all}{here}; give at least {least} and at most {most}",
                batches.len()
            )));
        }
        if let Some(part) = batches.iter().find(|part| !part.share.is_finite()) {
            return Err(Error::user(format!(
                "a batch has the share {} in the loss; the shares of a step are numbers that sum to 1",
                part.share
            )));
        }
        if let Some(part) = batches.iter().find(|part| !self.functions.contains_key(&part.shape)) {
            return Err(Error::user(match part.shape {
                Some(shape) => {
                    format!("there is no step for batches of the layout {shape:?}; call Trainer::add_step for it")
                }
                None => {
                    "this trainer has steps for several layouts of batches; say that of each with Part::at".to_string()
                }
            }));
        }
        Ok(())
    }

    /// Clears the sums of gradients, unless they wait for their update, and gives states that micro-batches assign the
    /// values from before the step.
    fn restore(&self, session: &mut Session, before: &[HostArray]) -> Result<()> {
        for name in self.gradient_sums.iter().filter(|_| self.pending.is_none()) {
            session.clear_state(name)?;
        }
        self.set_carried(session, before)
    }

    /// Gives states that micro-batches assign these values.
    pub fn set_carried(&self, session: &mut Session, values: &[HostArray]) -> Result<()> {
        let mut states = self.carried.iter().zip(values);
        states.try_for_each(|(name, data)| session.set_state(name, data))
    }

    fn run(
        &mut self,
        session: &mut Session,
        batches: &[Part<'_>],
        before: &[HostArray],
        rates: &[f64],
    ) -> Result<Sums> {
        let inputs = rates.iter().enumerate();
        let mut numbers: Numbers = inputs.map(|(group, lr)| (lr_input(group), [*lr as f32])).collect();
        numbers.extend(self.step_numbers());
        let pending = self.pending.clone();
        let scalars: Vec<(&str, Host<'_>)> = hosts(&numbers).chain(pending.iter().flat_map(hosts)).collect();
        let accumulates = self.options.accumulate > 1;
        let sums = if self.side_by_side {
            self.run_side_by_side(session, batches, before, &scalars)?
        } else if self.options.ranks > 1 {
            self.run_groups(session, batches, before, &scalars)?
        } else {
            let mut sums = self.run_batches(session, batches, 0, &scalars)?;
            if accumulates {
                self.check_finite(&mut sums)?;
                if let Some(apply) = self.apply.filter(|_| !sums.skipped) {
                    sums.end(&session.run(apply, &scalars)?)?;
                    if self.flush.is_some() {
                        self.check_finite(&mut sums)?;
                    }
                }
            }
            sums
        };
        drop(scalars);
        if self.options.non_finite == NonFinite::Stop && !sums.is_finite() {
            self.pending = None;
            self.broken = Some(self.not_finite(&sums));
            self.check_whole()?;
        }
        if self.flush.is_some() && !(accumulates && sums.skipped) {
            let late = |(name, number): (String, [f32; 1])| (passes::pending(&name), number);
            self.pending = Some(numbers.into_iter().map(late).collect());
        }
        Ok(sums)
    }

    /// Refuses, or skips, a step of accumulated gradients that are not finite, as the options say.
    fn check_finite(&self, sums: &mut Sums) -> Result<()> {
        match self.options.non_finite {
            _ if sums.is_finite() => Ok(()),
            NonFinite::Allow => Ok(()),
            NonFinite::Skip => {
                sums.skipped = true;
                Ok(())
            }
            NonFinite::Stop => Err(Error::user(self.not_finite(sums))),
        }
    }

    /// Runs micro-batches, the first of which is number `first` of the step.
    pub fn run_batches(
        &mut self,
        session: &mut Session,
        batches: &[Part<'_>],
        first: usize,
        scalars: &[(&str, Host<'_>)],
    ) -> Result<Sums> {
        let mut sums = Sums::default();
        for (index, part) in (first..).zip(batches) {
            let StepFunctions { step, first, .. } = self.functions_of(part)?;
            let step = first.filter(|_| self.pending.is_none()).unwrap_or(step);
            let results = self.with_inputs(part, index, scalars, |all| session.run(step, all))?;
            if self.options.accumulate > 1 {
                // The update that waited has run.
                self.pending = None;
            }
            sums.add(&results, part.share)?;
        }
        Ok(sums)
    }

    /// The functions for a micro-batch.
    pub fn functions_of(&self, part: &Part<'_>) -> Result<StepFunctions> {
        let functions = self.functions.get(&part.shape).copied();
        functions.ok_or_else(|| Error::internal("a batch of a layout without a step"))
    }

    /// Does something with the inputs of micro-batch number `index` of the step.
    pub fn with_inputs<T>(
        &self,
        part: &Part<'_>,
        index: usize,
        scalars: &[(&str, Host<'_>)],
        then: impl FnOnce(&Inputs<'_>) -> Result<T>,
    ) -> Result<T> {
        let (key, share) = (self.key(index), [part.share]);
        let mut all = scalars.to_vec();
        all.extend([(KEY, Host::U32(&key)), (SHARE, Host::F32(&share))]);
        all.extend_from_slice(part.inputs);
        check_once(&all)?;
        then(&all)
    }

    /// The sentence about the step that comes, which is not finite.
    fn not_finite(&self, sums: &Sums) -> String {
        let step = self.done.saturating_add(1);
        let what = match sums.gradient_norm {
            Some(norm) if sums.loss.is_finite() => format!("the norm of the gradient of step {step} is {norm}"),
            _ => format!("the loss of step {step} is {}", sums.loss),
        };
        format!(
            "{what}; lower the learning rate, clip the gradient with clip_norm or skip such steps (NonFinite::Skip)"
        )
    }

    /// Runs the delayed update of the last step, if it has not run yet: before parameters or states are used between
    /// steps. All processes do so together.
    pub fn flush(&mut self, session: &mut Session) -> Result<()> {
        if self.flush.is_none() || self.pending.is_none() {
            return Ok(());
        }
        self.carrier.begin_run();
        let result = self.flush_in_step(session);
        self.carrier.end_run()?;
        result
    }

    /// [`Steps::flush`] within a step.
    pub fn flush_in_step(&mut self, session: &mut Session) -> Result<()> {
        if let (Some(flush), Some(numbers)) = (self.flush, &self.pending) {
            let inputs: Vec<(&str, Host<'_>)> = hosts(numbers).collect();
            session.run(flush, &inputs)?;
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
    pub fn key(&self, index: usize) -> [u32; 2] {
        let draw = self
            .done
            .wrapping_mul(self.options.accumulate as u64)
            .wrapping_add(index as u64);
        [folded(self.options.seed), draw as u32]
    }
}

impl Sums {
    /// Adds the results of a micro-batch with this share.
    pub fn add(&mut self, results: &Results, share: f32) -> Result<()> {
        self.loss += share * results.scalar(LOSS)? as f32;
        for name in results.names().filter(|name| !is_reserved(name)) {
            match results.scalar(name) {
                Ok(value) => *self.values.entry(name.to_string()).or_default() += f64::from(share) * value,
                Err(_) => {
                    let array = HostArray::from(results.get(name)?);
                    self.arrays.entry(name.to_string()).or_default().push(array);
                }
            }
        }
        self.end(results)
    }

    /// Takes the results of an update.
    pub fn end(&mut self, results: &Results) -> Result<()> {
        let number = |name: &str| {
            let is_there = results.names().any(|own| own == name);
            is_there.then(|| results.scalar(name)).transpose()
        };
        self.gradient_norm = number(GRADIENT_NORM)?.map(|norm| norm as f32);
        self.skipped = number(FINITE)? == Some(0.0);
        Ok(())
    }

    /// Adds the sums of another part of the step.
    pub fn add_all(&mut self, other: Sums) {
        self.loss += other.loss;
        for (name, value) in other.values {
            *self.values.entry(name).or_default() += value;
        }
    }

    fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.gradient_norm.is_none_or(f32::is_finite)
    }
}

/// Refuses a learning rate that is negative or not finite.
fn check_rate(lr: f64) -> Result<()> {
    if lr.is_finite() && lr >= 0.0 {
        return Ok(());
    }
    Err(Error::user(format!(
        "the learning rate {lr} makes no sense; choose a finite number from 0"
    )))
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
