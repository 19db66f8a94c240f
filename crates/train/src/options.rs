//! Settings of a training: optimizer, learning-rate schedule, clipping, accumulation, budget.

use crate::carrier::GroupCarrier;
use crate::dealing::{Dealing, Move};
use lessen_base::{Error, Result};
use lessen_comm::{Group, part};
use lessen_compile::{CostSource, Options, Placement, Policy, Precision};
use lessen_graph::{Graph, Ranks};
use lessen_nn::optimizer::Ending;
use lessen_nn::{
    Algorithm, Centred, Joined, Lora, LrFunction, LrSchedule, LrScheduleKind, NormKind, OptimizerConfig, ParamGroup,
    Patterns, UpdateRule,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// What happens to a step whose loss, or whose norm of the gradient where it is computed, is not finite.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NonFinite {
    /// The step is an error. With accumulation in one group nothing has changed then. Otherwise the update has run, so
    /// the trainer takes no further step and saves nothing until it resumes from a checkpoint. It takes no time or
    /// memory.
    #[default]
    Stop,
    /// Parameters and states stay as they are, and the step counts and goes into the report as skipped. The norm of the
    /// gradient is computed for it before any update, which takes the memory of all gradients at once.
    Skip,
    /// The step is like any other, for callers that look at the loss themselves.
    Allow,
}

/// Settings of a training.
#[derive(Clone, Debug)]
pub struct TrainerOptions {
    /// Optimizer of parameters in no group.
    pub optimizer: OptimizerConfig,
    /// An algorithm of the caller in place of `optimizer`; groups with an optimizer keep theirs.
    pub algorithm: Option<Algorithm>,
    /// Learning-rate schedule of parameters in no group.
    pub schedule: LrSchedule,
    /// A learning rate in place of `schedule`; groups with a schedule keep theirs.
    pub rate: Option<LrFunction>,
    /// Parameters with another optimizer or learning rate.
    pub groups: Vec<ParamGroup>,
    /// Steps done before the schedule begins: where training continues from another model, its last step.
    pub schedule_start: u64,
    /// Parameters that joined after the first step.
    pub joined: Joined,
    /// Steps after which parameters joined in fact, by the number in `joined`, where fewer steps came before than
    /// planned.
    pub joined_at: BTreeMap<u64, u64>,
    /// What happens to a step whose loss is not finite.
    pub non_finite: NonFinite,
    /// Parameters that are not trained.
    pub frozen: Patterns,
    /// Adapters that are trained in place of other parameters.
    pub lora: Option<Lora>,
    /// Parameters without weight decay.
    pub no_decay: Patterns,
    /// Layer-wise decay of the learning rate; see [`UpdateRule::layer_decay`].
    pub layer_decay: Option<f64>,
    /// Decay of an exponential moving average of the parameters that are trained, with which functions beside the step
    /// compute; see [`UpdateRule::ema`].
    pub ema: Option<f64>,
    /// Seed of the initial parameters and of all random numbers of the model.
    pub seed: u64,
    /// Greatest norm of the gradient over all parameters; a longer gradient is scaled down to it. None scales nothing.
    pub clip_norm: Option<f64>,
    /// Micro-batches of a step.
    pub accumulate: usize,
    /// Groups of the micro-batches of a step, which divide `accumulate`: each adds up its gradients in order, and the
    /// sums of the groups are added by a binary tree. So a step has the same bits on any number of processes.
    pub ranks: usize,
    /// The processes that share the groups of each step.
    pub group: Group,
    /// Whether each process has a piece of each large parameter alone, and gathers the whole while it is read (ZeRO,
    /// stage 3). It changes no bit of any result. All processes read parameters together then, also between steps.
    pub shards_parameters: bool,
    /// Quarters of the bytes of parameters in pieces, at most 4, that are kept from forward on, so that backward does
    /// not gather them again. None has the planner choose the fastest plans within the budget, and keep no parameter
    /// without a budget. It changes no bit of any result, and is the same on all processes.
    pub kept_quarters: Option<usize>,
    /// Norm conversion; it changes results by rounding alone.
    pub norm: NormKind,
    /// Placement of updates; it changes no result.
    pub placement: Placement,
    /// Dtype that matrix products read, in the step and in functions beside it. Parameters and optimizer states stay
    /// `f32`.
    pub precision: Precision,
    /// Choice of the values that backward keeps; it changes no result.
    pub policy: Policy,
    /// Greatest declared error of a value that backward recovers inexactly, as by inversion. 0 admits exact ways alone,
    /// with which no budget changes a result.
    pub allowed_error: f64,
    /// Cost model of the memory planner; it changes no result.
    pub cost: CostSource,
    /// Most bytes of parameters, optimizer states, step and functions together.
    pub budget: Option<usize>,
}

impl TrainerOptions {
    /// AdamW at a constant learning rate.
    pub fn new(lr: f64) -> TrainerOptions {
        TrainerOptions {
            optimizer: OptimizerConfig::adamw(0.0),
            algorithm: None,
            schedule: LrSchedule {
                kind: LrScheduleKind::Constant,
                peak: lr,
                warmup: 0,
                total: 0,
            },
            rate: None,
            groups: Vec::new(),
            schedule_start: 0,
            joined: Joined::new(),
            joined_at: BTreeMap::new(),
            non_finite: NonFinite::default(),
            frozen: Patterns::default(),
            lora: None,
            no_decay: Patterns::default(),
            layer_decay: None,
            ema: None,
            seed: 1,
            clip_norm: None,
            accumulate: 1,
            ranks: 1,
            group: Group::alone(),
            shards_parameters: false,
            kept_quarters: None,
            norm: NormKind::default(),
            placement: Placement::default(),
            precision: Precision::default(),
            policy: Policy::default(),
            allowed_error: 0.0,
            cost: CostSource::default(),
            budget: None,
        }
    }

    /// Checks all settings; everything that trains by them calls this first.
    ///
    /// # Errors
    /// A number that is out of range or not finite, with its name.
    pub fn check(&self) -> Result<()> {
        if self.accumulate == 0 {
            return Err(Error::user(
                "accumulate = 0 makes steps of no batches; choose at least 1",
            ));
        }
        if self.ranks == 0 || !self.accumulate.is_multiple_of(self.ranks) {
            return Err(Error::user(format!(
                "ranks = {} does not divide accumulate = {}; make each step of a multiple of {} micro-batches",
                self.ranks,
                self.accumulate,
                self.ranks.max(1)
            )));
        }
        if self.group.size() > self.ranks {
            return Err(Error::user(format!(
                "there are {} processes for ranks = {}; start at most {}, or set ranks to more",
                self.group.size(),
                self.ranks,
                self.ranks
            )));
        }
        if self.shards_parameters && self.ema.is_some() {
            return Err(Error::user(
                "an average of parameters is a whole in every process, so parameters in pieces have none; set ema = 0, or \
                 shard_parameters = false",
            ));
        }
        if let Some(quarters) = self.kept_quarters.filter(|quarters| *quarters > 4) {
            return Err(Error::user(format!(
                "kept_quarters = {quarters} is more than all parameters; choose at most 4"
            )));
        }
        if !(self.allowed_error.is_finite() && self.allowed_error >= 0.0) {
            let error = self.allowed_error;
            return Err(Error::user(format!(
                "allowed_error = {error} makes no sense; choose a finite number from 0"
            )));
        }
        self.schedule.check()?;
        self.update_rule().check()
    }

    /// Whether the updates of accumulated gradients wait for the first micro-batch of the next step.
    pub(crate) fn delays_sums(&self) -> bool {
        self.accumulate > 1 && self.placement == Placement::ForwardFused
    }

    /// How the micro-batches of this process end in a step.
    pub(crate) fn ending(&self) -> Ending {
        let dealing = Dealing::of(self.ranks, self.own_groups());
        let last = dealing.moves.last().into_iter().flatten();
        let added = |step: &Move| match *step {
            Move::Add(slot) => Some(slot),
            Move::Hold(_) => None,
        };
        Ending {
            sums: self.most_batches() > 1,
            added: last.filter_map(added).collect(),
            waits: self.ranks > 1 && self.delays_sums(),
        }
    }

    /// The groups of a step that this process computes.
    pub fn own_groups(&self) -> Range<usize> {
        part(self.ranks, self.group.size(), self.group.rank())
    }

    /// The micro-batches of a step that this process computes, by their numbers in the step.
    pub fn own_batches(&self) -> Range<usize> {
        let (groups, each) = (self.own_groups(), self.accumulate / self.ranks);
        groups.start * each..groups.end * each
    }

    /// The most micro-batches of a step that a process computes.
    pub(crate) fn most_batches(&self) -> usize {
        self.ranks.div_ceil(self.group.size()) * (self.accumulate / self.ranks)
    }

    /// Whether parameters are in pieces, so that all processes run the same programs.
    pub(crate) fn is_sharded(&self) -> bool {
        self.shards_parameters && self.group.size() > 1
    }

    /// The numbers of the batches of a source that this process computes in the steps after `done` steps, where the
    /// first step begins with batch number `first`.
    pub fn own_batches_after(&self, first: u64, done: u64) -> impl Iterator<Item = u64> + Send + use<> {
        let (own, all) = (self.own_batches(), self.accumulate as u64);
        (done..).flat_map(move |step| {
            let begin = first.saturating_add(step.saturating_mul(all));
            own.clone().map(move |index| begin.saturating_add(index as u64))
        })
    }

    /// The learning rates of step `step`, counted from 0 over the whole training: first the rate of parameters in no
    /// group, then the rate of each group.
    pub fn learning_rates(&self, step: u64) -> Vec<f64> {
        let scheduled = self.scheduled(step);
        let rest = match &self.rate {
            Some(rate) => rate.lr(scheduled),
            None => self.schedule.lr(usize::try_from(scheduled).unwrap_or(usize::MAX)),
        };
        self.learning_rates_beside(rest, step)
    }

    /// The learning rates of step `step`, where parameters in no group have the rate `rest`.
    pub(crate) fn learning_rates_beside(&self, rest: f64, step: u64) -> Vec<f64> {
        let scheduled = usize::try_from(self.scheduled(step)).unwrap_or(usize::MAX);
        let of_groups = self.groups.iter().map(|group| group.lr(rest, scheduled));
        std::iter::once(rest).chain(of_groups).collect()
    }

    /// The number of step `step` in the schedule.
    fn scheduled(&self, step: u64) -> u64 {
        step.saturating_sub(self.schedule_start)
    }

    /// This process among those of the training, whose groups are leaves.
    pub(crate) fn ranks_of_groups(&self) -> Ranks {
        Ranks {
            rank: self.group.rank(),
            count: self.group.size(),
            leaves: self.ranks,
        }
    }

    /// Whether the groups of a process run side by side, as the operations of several ranks in the graph of its first
    /// one need.
    ///
    /// # Errors
    /// Operations of other ranks than the groups; groups of several micro-batches, which follow each other.
    pub(crate) fn runs_side_by_side(&self, graph: &Graph) -> Result<bool> {
        let own = self.ranks_of_groups().of_leaf(self.own_groups().start);
        let mut needs = false;
        for (name, ranks) in graph
            .nodes
            .iter()
            .filter_map(|node| Some((node.op.name(), node.op.ranks()?)))
        {
            if ranks != own {
                return Err(Error::user(format!(
                    "`{name}` of the model is of rank {} of {} with {} leaves, and this is group {} of {}; take Cx::ranks",
                    ranks.rank, ranks.count, ranks.leaves, own.rank, own.count
                )));
            }
            if own.count > 1 && self.ranks != self.accumulate {
                return Err(Error::user(format!(
                    "`{name}` of the model is over all groups of a step, which run side by side, but ranks = {} cuts {} \
                     micro-batches into groups of several; set ranks = {}",
                    self.ranks, self.accumulate, self.accumulate
                )));
            }
            needs |= own.count > 1;
        }
        Ok(needs)
    }

    /// Options of the compiler within a budget.
    pub(crate) fn of_plans(&self, budget: Option<usize>, carrier: &Arc<GroupCarrier>) -> Options {
        Options {
            placement: self.placement,
            precision: self.precision,
            policy: self.policy,
            allowed_error: self.allowed_error,
            cost: self.cost,
            budget,
            carrier: Some(carrier.clone()),
            waits_at_once: false,
        }
    }

    /// Steps after which parameters with this number in `joined` joined in fact.
    pub(crate) fn joined_after(&self, number: u64) -> u64 {
        self.joined_at.get(&number).copied().unwrap_or(number)
    }

    /// Parameters that joined after the first step, with the steps after which they joined in fact.
    pub fn joined_in_fact(&self) -> Joined {
        let all = self.joined.iter();
        all.map(|(name, number)| (name.clone(), self.joined_after(*number)))
            .collect()
    }

    /// The update rule.
    pub fn update_rule(&self) -> UpdateRule {
        UpdateRule {
            step: None,
            only: None,
            optimizer: self.optimizer,
            algorithm: self.algorithm.clone(),
            skips_non_finite: self.non_finite == NonFinite::Skip,
            groups: self.groups.clone(),
            clip_norm: self.clip_norm,
            joined: self.joined.clone(),
            frozen: self.frozen.clone(),
            lora: self.lora.clone(),
            no_decay: self.no_decay.clone(),
            layer_decay: self.layer_decay,
            ema: self.ema,
            centred: Centred::new(),
            fills_in: self.is_sharded(),
            ranks: (self.ranks > 1).then(|| self.ranks_of_groups()),
        }
    }
}
