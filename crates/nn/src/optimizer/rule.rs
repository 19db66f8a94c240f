//! How the parameters of a model are updated: which are trained, how fast, by which optimizer.

use std::collections::{BTreeMap, BTreeSet};

use super::config::OptimizerConfig;
use crate::context::ParamSpec;
use crate::lora::Lora;
use crate::patterns::Patterns;

/// After how many steps parameters joined the training, for those that were not there from the first step on. An
/// optimizer that counts steps counts those since then, by which AdamW corrects the bias of its moments.
pub type Joined = BTreeMap<String, u64>;

/// Parameters that have mean zero along axes, which an update keeps.
pub type Centred = BTreeMap<String, BTreeSet<usize>>;

/// How the parameters of a model are updated.
#[derive(Clone, PartialEq, Debug)]
pub struct UpdateRule {
    /// The optimizer.
    pub optimizer: OptimizerConfig,
    /// The greatest norm of the gradient over all parameters that are trained, which is scaled down to it; none leaves
    /// gradients as they are.
    pub clip_norm: Option<f64>,
    /// Parameters that joined after the first step.
    pub joined: Joined,
    /// Parameters that stay as they are: they have neither a gradient nor optimizer states.
    pub frozen: Patterns,
    /// The adapters that are trained in place of other parameters.
    pub lora: Option<Lora>,
    /// Parameters that have no weight decay, whatever their rank.
    pub no_decay: Patterns,
    /// Layer-wise decay of the learning rate: of `L` blocks, parameters of block `l` (from 0) learn with the rate times
    /// `decay^(L - l)`, those before the first block with `decay^(L + 1)`, those behind the last one with the rate
    /// itself. The block of a parameter is the first part of its name that is a number.
    pub layer_decay: Option<f64>,
    /// Decay `d` of an exponential moving average of the parameters that are trained, with the states `ema.PARAMETER`:
    /// `a := a + (p - a) (1 - d) / (1 - d^t)` after step `t`, which is the mean of the parameters after the steps up to
    /// `t`, weighted by `d` to the power of the steps since.
    pub ema: Option<f64>,
    /// Parameters that stay recentred, since norms of the graph subtract no mean (Jiang et al. 2023). Their gradients
    /// are projected, and they are recentred after the update, so that both are those of LayerNorm but for a mean, on
    /// which nothing depends.
    pub centred: Centred,
}

impl UpdateRule {
    /// All parameters are trained by this optimizer, without clipping.
    pub fn new(optimizer: OptimizerConfig) -> UpdateRule {
        UpdateRule {
            optimizer,
            clip_norm: None,
            joined: Joined::new(),
            frozen: Patterns::default(),
            lora: None,
            no_decay: Patterns::default(),
            layer_decay: None,
            ema: None,
            centred: Centred::new(),
        }
    }

    /// Whether a parameter is trained.
    pub fn trains(&self, param: &ParamSpec) -> bool {
        let name = &param.name;
        let is_adapted = self.lora.as_ref().is_none_or(|lora| lora.trains(name));
        !param.is_buffer && !self.frozen.contains(name) && is_adapted
    }

    /// Those of all parameters of a model that are trained, each with what its learning rate is multiplied by.
    pub(super) fn trained(&self, params: Vec<ParamSpec>) -> Vec<(ParamSpec, f64)> {
        let factors = match self.layer_decay {
            Some(decay) => rate_factors(&params, decay),
            None => vec![1.0; params.len()],
        };
        let all = params.into_iter().zip(factors);
        all.filter(|(param, _)| self.trains(param)).collect()
    }
}

/// The name of the state with the moving average of a parameter.
pub fn average_of(name: &str) -> String {
    format!("ema.{name}")
}

/// What layer-wise decay multiplies the learning rate of each parameter by, in the order of first use.
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

/// The name of the data input (`f32[]`) with the number of the step, for parameters that joined after `joined` steps:
/// the step number less `joined`.
pub fn steps_input(joined: u64) -> String {
    match joined {
        0 => "t".to_string(),
        after => format!("t.{after}"),
    }
}
