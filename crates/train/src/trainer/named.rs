//! Steps of other losses over the same parameters, each with an optimizer of its own.

use super::Trainer;
use super::group_functions::GroupFunctions;
use super::part::{Part, StepReport};
use super::steps::{StepFunctions, Steps};
use crate::beside::states_of;
use crate::exchanges::Exchanges;
use crate::function_graph::check_params;
use crate::options::{NonFinite, TrainerOptions};
use crate::session::Inputs;
use crate::step_graph::{loss_graph, step_graph};
use crate::update_graphs::{Late, apply_graph};
use lessen_base::{Error, Result, SplitMix64};
use lessen_comm::Group;
use lessen_compile::Placement;
use lessen_graph::Tensor;
use lessen_nn::{
    Algorithm, Cx, LrFunction, LrSchedule, OptimizerConfig, ParamGroup, ParamSpec, Patterns, StateSpec, UpdateRule,
};
use std::collections::{BTreeMap, HashMap};

/// Settings of a named step. All others are the trainer's, but for averages, which the first step alone moves.
#[derive(Clone, PartialEq, Debug)]
pub struct StepOptions {
    /// Parameters that the step trains; all others are constants in it.
    pub trains: Patterns,
    /// Optimizer of parameters in no group.
    pub optimizer: OptimizerConfig,
    /// An algorithm of the caller in place of `optimizer`.
    pub algorithm: Option<Algorithm>,
    /// Learning-rate schedule of parameters in no group, over the steps of this name.
    pub schedule: LrSchedule,
    /// A learning rate in place of `schedule`.
    pub rate: Option<LrFunction>,
    /// Parameters with another optimizer or learning rate.
    pub groups: Vec<ParamGroup>,
    /// Parameters without weight decay.
    pub no_decay: Patterns,
    /// Greatest norm of the gradient over the parameters that the step trains.
    pub clip_norm: Option<f64>,
    /// Micro-batches of a step.
    pub accumulate: usize,
    /// What happens to a step whose loss is not finite.
    pub non_finite: NonFinite,
}

impl StepOptions {
    /// AdamW at a constant learning rate for these parameters.
    pub fn new(trains: Patterns, lr: f64) -> StepOptions {
        let options = TrainerOptions::new(lr);
        StepOptions {
            trains,
            optimizer: options.optimizer,
            algorithm: None,
            schedule: options.schedule,
            rate: None,
            groups: Vec::new(),
            no_decay: Patterns::default(),
            clip_norm: None,
            accumulate: 1,
            non_finite: NonFinite::default(),
        }
    }

    /// The options of a trainer that has this step alone, and random numbers of its own.
    fn beside(&self, name: &str, first: &TrainerOptions) -> TrainerOptions {
        TrainerOptions {
            optimizer: self.optimizer,
            algorithm: self.algorithm.clone(),
            schedule: self.schedule,
            rate: self.rate.clone(),
            groups: self.groups.clone(),
            schedule_start: 0,
            joined: Default::default(),
            joined_at: BTreeMap::new(),
            frozen: Patterns::default(),
            no_decay: self.no_decay.clone(),
            ema: None,
            clip_norm: self.clip_norm,
            accumulate: self.accumulate,
            non_finite: self.non_finite,
            // Every process computes the whole step.
            ranks: 1,
            group: Group::alone(),
            seed: SplitMix64::named(first.seed, name).next_u64(),
            // Another step may come between an update and the next step of this name.
            placement: match first.placement {
                Placement::Separate => Placement::Separate,
                _ => Placement::BackwardFused,
            },
            ..first.clone()
        }
    }
}

/// A step with a name.
pub(super) struct Named {
    pub options: StepOptions,
    pub rule: UpdateRule,
    pub steps: Steps,
}

impl Named {
    /// Whether the step trains a parameter.
    pub fn trains(&self, param: &ParamSpec) -> bool {
        self.rule.trains(param)
    }
}

impl Trainer {
    /// Adds a step of another loss over the trainer's parameters, such as the discriminator's of an adversarial
    /// training: [`Trainer::step_named`] runs it. It trains the parameters that `options` names, with optimizer states
    /// and a number of steps of its own; the first step trains those that [`TrainerOptions::frozen`] leaves. Averages
    /// of parameters move in the first step alone. The step is planned within the budget, and within the memory that is
    /// allocated if possible. Where the name has a step of the same loss and options, nothing is done.
    ///
    /// # Errors
    /// A name that is empty or has a `.`, a `:` or an `@`, or that has a step of another loss or other options; the
    /// errors of [`Trainer::new`]; a parameter that the trainer does not have; a budget that is too small for it, and a
    /// graph that the machine's memory cannot hold.
    pub fn add_named_step(&mut self, name: &str, options: StepOptions, loss: impl Fn(Cx) -> Tensor) -> Result<()> {
        if name.is_empty() || name.contains(['.', ':', '@']) {
            return Err(Error::user(format!(
                "`{name}` is no name of a step; take one without `.`, `:` and `@`"
            )));
        }
        let beside = options.beside(name, &self.first.options);
        beside.check().map_err(|error| error.at(format!("the step `{name}`")))?;
        if let Some(known) = self.named.get(name) {
            let mark = loss_graph(&beside, 0, loss)?.mark;
            let is_same = known.options == options && known.steps.functions.values().all(|own| own.mark == mark);
            return if is_same {
                Ok(())
            } else {
                Err(Error::user(format!(
                    "there is a step `{name}` with another loss or other options; give one of them another name"
                )))
            };
        }
        let rule = UpdateRule {
            step: Some(name.to_string()),
            only: Some(options.trains.clone()),
            ..beside.update_rule()
        };
        let centred = self.session.view().centred().clone();
        let traced = step_graph(&beside, &rule, Some(&centred), loss)?;
        check_params(self.session.params(), &traced.params)?;
        let apply_graph = apply_graph(&beside, &rule, (&traced.params, &traced.centred))?;
        let gradient_sums: Vec<String> = traced.sums.into_iter().map(|sum: StateSpec| sum.name).collect();
        let carried = match apply_graph {
            Some(_) => traced.assigned,
            None => Vec::new(),
        };
        let step = self.add(&traced.graph, beside.placement)?;
        let apply = match &apply_graph {
            Some(graph) => match self.add(graph, beside.placement) {
                Ok(apply) => Some(apply),
                Err(error) => {
                    self.session.unload(step)?;
                    return Err(error);
                }
            },
            None => None,
        };
        for (state, _) in std::iter::once(&traced.graph).chain(&apply_graph).flat_map(states_of) {
            let is_param = traced.params.iter().any(|param| param.name == state);
            if !is_param && !self.states.iter().any(|known| known == state) {
                self.states.push(state.to_string());
            }
        }
        let mark = traced.mark;
        let functions = HashMap::from([(
            None,
            StepFunctions {
                step,
                first: None,
                last: None,
                mark,
            },
        )]);
        let steps = Steps {
            options: beside,
            functions,
            apply,
            flush: None,
            late: Late::new(),
            carrier: self.first.carrier.clone(),
            exchanges: Exchanges::default(),
            gradient_sums,
            groups: GroupFunctions::default(),
            side_by_side: false,
            carried,
            pending: None,
            lr: None,
            rates: None,
            done: 0,
            broken: None,
        };
        self.named.insert(name.to_string(), Named { options, rule, steps });
        Ok(())
    }

    /// One step of a loss that was added by name, on one batch.
    ///
    /// # Errors
    /// As [`Trainer::step`], and a name without a step.
    pub fn step_named(&mut self, name: &str, inputs: &Inputs<'_>) -> Result<StepReport> {
        self.step_named_on(name, &[Part::new(1.0, inputs)])
    }

    /// One step of a loss that was added by name, on as many micro-batches as its options say, or fewer.
    ///
    /// # Errors
    /// As [`Trainer::step_on`], and a name without a step.
    pub fn step_named_on(&mut self, name: &str, batches: &[Part<'_>]) -> Result<StepReport> {
        self.check_whole()?;
        self.flush()?;
        let (session, named) = (&mut self.session, named_in(&mut self.named, name)?);
        let report = named.steps.step(session, batches);
        report.map_err(|error| error.at(format!("the step `{name}`")))
    }

    /// Sets the learning rate of the steps of this name that come, as [`Trainer::set_lr`] does for the first ones.
    ///
    /// # Errors
    /// A rate that is negative or not finite; a name without a step.
    pub fn set_lr_named(&mut self, name: &str, lr: f64) -> Result<()> {
        named_in(&mut self.named, name)?.steps.set_lr(lr)
    }

    /// Steps of this name that are done; none if there is no such step.
    pub fn done_named(&self, name: &str) -> Option<u64> {
        self.named.get(name).map(|named| named.steps.done)
    }
}

/// The step of a name.
fn named_in<'a>(all: &'a mut BTreeMap<String, Named>, name: &str) -> Result<&'a mut Named> {
    let names: Vec<String> = all.keys().map(|name| format!("`{name}`")).collect();
    all.get_mut(name).ok_or_else(|| {
        let there = match names.len() {
            0 => "there are none".to_string(),
            _ => format!("there are {}", names.join(", ")),
        };
        Error::user(format!(
            "there is no step `{name}`, {there}; add it with Trainer::add_named_step"
        ))
    })
}
