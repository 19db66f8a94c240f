//! The update rule of a model: the trained parameters, their learning rates and their optimizers.

use std::collections::{BTreeMap, BTreeSet};

use lessen_graph::{DType, Ranks};

use super::algorithm::Algorithm;
use super::config::OptimizerConfig;
use crate::lora::Lora;
use crate::lr_schedule::LrSchedule;
use crate::names::{gradient_sum_of, optimizer_state};
use crate::params::{ParamSpec, StateSpec};
use crate::patterns::Patterns;

/// Steps after which parameters joined the training, for parameters that joined after the first step. An optimizer that
/// counts steps counts from there: AdamW corrects the bias of its moments by that number.
pub type Joined = BTreeMap<String, u64>;

/// Parameters that have mean zero along axes, which an update keeps.
pub type Centred = BTreeMap<String, BTreeSet<usize>>;

/// Parameters with an update of their own. A setting that a group leaves out is the same as for the rest of the model.
#[derive(Clone, PartialEq, Debug)]
pub struct ParamGroup {
    /// Names of the parameters.
    pub params: Patterns,
    /// The optimizer.
    pub optimizer: Option<OptimizerConfig>,
    /// Weight decay of the optimizer; parameters of rank below 2 have none in any case.
    pub weight_decay: Option<f64>,
    /// The learning rate of every step.
    pub schedule: Option<LrSchedule>,
    /// Factor of the learning rate.
    pub lr_factor: f64,
}

impl ParamGroup {
    /// A group of the parameters `params`, which are updated like the rest of the model.
    pub fn new(params: Patterns) -> ParamGroup {
        ParamGroup {
            params,
            optimizer: None,
            weight_decay: None,
            schedule: None,
            lr_factor: 1.0,
        }
    }

    /// The learning rate of step `step`, counted from 0, where `rest` is the learning rate of the rest of the model.
    pub fn lr(&self, rest: f64, step: usize) -> f64 {
        self.schedule.as_ref().map_or(rest, |own| own.lr(step)) * self.lr_factor
    }
}

/// The update rule of the parameters of a model.
#[derive(Clone, PartialEq, Debug)]
pub struct UpdateRule {
    /// Name of a step beside the first one, whose states are its own; none for the first. It has no `.`, no `:` and no
    /// `@`.
    pub step: Option<String>,
    /// Parameters that are trained, of those that nothing else leaves out; none for all of them.
    pub only: Option<Patterns>,
    /// The optimizer of parameters that are in no group.
    pub optimizer: OptimizerConfig,
    /// An algorithm from outside of this crate in place of `optimizer`; groups with an optimizer keep theirs.
    pub algorithm: Option<Algorithm>,
    /// Parameters that have another optimizer or learning rate. Each learning rate is a data input of its own.
    pub groups: Vec<ParamGroup>,
    /// Greatest norm of the gradient over all parameters that are trained; a longer gradient is scaled down to it. None
    /// scales nothing.
    pub clip_norm: Option<f64>,
    /// Parameters that joined after the first step.
    pub joined: Joined,
    /// Parameters that are not trained: they have neither a gradient nor optimizer states.
    pub frozen: Patterns,
    /// The adapters that are trained in place of other parameters.
    pub lora: Option<Lora>,
    /// Parameters without weight decay, of any rank.
    pub no_decay: Patterns,
    /// Layer-wise decay of the learning rate. Of `L` blocks, parameters of block `l` (from 0) learn with the rate times
    /// `decay^(L - l)`, parameters before the first block with `decay^(L + 1)`, and parameters after the last block
    /// with the rate itself. The block of a parameter is the first part of its name that is a number.
    pub layer_decay: Option<f64>,
    /// Decay `d` of an exponential moving average of the parameters that are trained, in states of their own:
    /// `a := a + (p - a) (1 - d) / (1 - d^t)` after step `t`, which is the mean of the parameters after the steps up to
    /// `t`, weighted by `d` to the power of the steps since.
    pub ema: Option<f64>,
    /// Whether an update with a loss or a gradient that is not finite leaves all states as they are; see
    /// [`Update::finite`](super::Update::finite). It takes the memory of all gradients at once, as clipping does.
    pub skips_non_finite: bool,
    /// Parameters that stay recentred, since norms of the graph subtract no mean (Jiang et al. 2023). Their gradients
    /// are projected, and they are recentred after the update: gradients and parameters equal LayerNorm's up to a mean,
    /// on which nothing depends.
    pub centred: Centred,
    /// Whether a micro-batch of the share 0 stands for none: its gradient is zero, whatever its numbers are.
    pub fills_in: bool,
    /// The ranks that share the update of accumulated gradients, and the groups of micro-batches that they add up; none
    /// for one group.
    pub ranks: Option<Ranks>,
}

impl UpdateRule {
    /// All parameters are trained by this optimizer, without clipping.
    pub fn new(optimizer: OptimizerConfig) -> UpdateRule {
        UpdateRule {
            step: None,
            only: None,
            optimizer,
            algorithm: None,
            groups: Vec::new(),
            clip_norm: None,
            joined: Joined::new(),
            frozen: Patterns::default(),
            lora: None,
            no_decay: Patterns::default(),
            layer_decay: None,
            ema: None,
            skips_non_finite: false,
            centred: Centred::new(),
            fills_in: false,
            ranks: None,
        }
    }

    /// Whether a parameter is trained.
    pub fn trains(&self, param: &ParamSpec) -> bool {
        let name = &param.name;
        let is_adapted = self.lora.as_ref().is_none_or(|lora| lora.trains(name));
        let is_meant = self.only.as_ref().is_none_or(|only| only.contains(name));
        !param.is_buffer && !self.frozen.contains(name) && is_adapted && is_meant
    }

    /// Number of a parameter's group, from 1, and its optimizer. The first group that contains the parameter counts; 0
    /// stands for no group.
    pub fn group_of(&self, param: &str) -> (usize, OptimizerConfig) {
        let found = (1..).zip(&self.groups).find(|(_, group)| group.params.contains(param));
        let Some((number, group)) = found else {
            return (0, self.optimizer);
        };
        let optimizer = group.optimizer.unwrap_or(self.optimizer);
        (
            number,
            group
                .weight_decay
                .map_or(optimizer, |decay| optimizer.with_weight_decay(decay)),
        )
    }

    /// The algorithm from outside that updates a parameter, if one does.
    pub(super) fn algorithm_of(&self, param: &str) -> Option<&Algorithm> {
        let group = self.groups.iter().find(|group| group.params.contains(param));
        let has_own = group.is_some_and(|group| group.optimizer.is_some());
        self.algorithm.as_ref().filter(|_| !has_own)
    }

    /// Steps after which a parameter joined.
    pub(super) fn joined_after(&self, param: &str) -> u64 {
        self.joined.get(param).copied().unwrap_or(0)
    }

    /// The name of a state of a parameter's optimizer.
    pub(super) fn state_of(&self, state: &str, param: &str) -> String {
        match &self.step {
            None => optimizer_state(state, param),
            Some(step) => optimizer_state(&format!("{step}:{state}"), param),
        }
    }

    /// The state that sums a parameter's gradients.
    pub(super) fn gradient_state(&self, param: &ParamSpec) -> StateSpec {
        StateSpec {
            name: match self.step {
                None => gradient_sum_of(&param.name),
                Some(_) => self.state_of("gradient", &param.name),
            },
            dtype: DType::F32,
            shape: param.shape.clone(),
        }
    }

    /// Trained parameters among all parameters of a model, each with a factor of its learning rate.
    pub(super) fn trained(&self, params: Vec<ParamSpec>) -> Vec<(ParamSpec, f64)> {
        let factors = match self.layer_decay {
            Some(decay) => rate_factors(&params, decay),
            None => vec![1.0; params.len()],
        };
        let all = params.into_iter().zip(factors);
        all.filter(|(param, _)| self.trains(param)).collect()
    }
}

/// Factors of the learning rates by layer-wise decay, in the order of first use.
fn rate_factors(params: &[ParamSpec], decay: f64) -> Vec<f64> {
    let block = |param: &ParamSpec| param.name.split('.').find_map(|part| part.parse::<usize>().ok());
    let blocks = params.iter().filter_map(block).max().map_or(0, |last| last + 1);
    let mut has_begun = blocks == 0;
    let depth = |param| match block(param) {
        Some(block) => {
            has_begun = true;
            block + 1
        }
        None if has_begun => blocks + 1,
        None => 0,
    };
    let depths = params.iter().map(depth);
    depths.map(|depth| decay.powi((blocks + 1 - depth) as i32)).collect()
}
