//! Settings of a search.

use crate::cost::CostKind;
use lessen_base::{Error, Result};
use lessen_compile::Precision;
use lessen_nn::layers::Spread;

lessen_base::words! {
    /// How the derivative of the mean cost is told.
    pub enum CostGradient {
        /// By REINFORCE, from networks that are drawn (equation 2.34).
        Reinforce = "reinforce",
        /// Exactly, from the table of the costs: a choice that the dissertation does not have.
        Exact = "exact",
    }
}

/// Settings of a search for architecture and precision.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Epochs over the images on which the weights are trained.
    pub epochs: usize,
    /// Epochs at first in which the architecture does not move.
    pub frozen_epochs: usize,
    /// Images of a step.
    pub batch: usize,
    /// Share of the images on which the architecture is updated; the weights are trained on the others.
    pub validation: f64,
    /// Learning rate of the weights at first, which falls to 0 by a cosine.
    pub weight_rate: f64,
    /// Momentum of the weights.
    pub weight_momentum: f64,
    /// Weight decay, which is added to gradients.
    pub weight_decay: f64,
    /// Greatest magnitude of an element of a gradient of the weights.
    pub clip: f64,
    /// Learning rate of the logits, by Adam.
    pub logit_rate: f64,
    /// Weight decay of the logits, which is added to gradients.
    pub logit_decay: f64,
    /// Temperature of the Gumbel softmax in the first epoch, of which each epoch has `exp(-cooling)` of the one before.
    pub temperature: f64,
    /// How fast it falls.
    pub cooling: f64,
    /// Whether the loss of the validation images is that after a step of the weights (equation 2.31), by second
    /// derivatives; else it is that of the present weights, and the two kinds of updates alternate.
    pub unrolled: bool,
    /// Samples of the Gumbel softmax in an update of the architecture (`m` in equation 2.33).
    pub samples: usize,
    /// What a network costs.
    pub cost: CostKind,
    /// Weight of the mean cost beyond the limit, in the unit of the cost (equation 2.29).
    pub lambda: f64,
    /// The limit, in the unit of the cost; without one every cost counts.
    pub limit: Option<f64>,
    /// How the derivative of the mean cost is told.
    pub cost_gradient: CostGradient,
    /// Networks that are drawn for it (`k` in equation 2.34).
    pub cost_samples: usize,
    /// Probability that is spread over all classes.
    pub label_smoothing: f64,
    /// Images of a batch are mixed in pairs by shares of Beta(a, a) for this a; 0 is none.
    pub mixup: f64,
    /// Whether images are shifted by up to 4 pixels and mirrored.
    pub augment: bool,
    /// How norms measure the spread of a channel.
    pub spread: Spread,
    /// Seed of weights, images and samples.
    pub seed: u64,
    /// Dtype that products and convolutions read.
    pub precision: Precision,
    /// Most bytes of all states, constants and results and of the arena.
    pub budget: Option<usize>,
    /// Whether plans take the least memory.
    pub tightest: bool,
}

impl Default for Settings {
    /// The settings of the dissertation, and of FBNet (Wu et al. 2019) where it says nothing.
    fn default() -> Settings {
        Settings {
            epochs: 60,
            frozen_epochs: 10,
            batch: 64,
            validation: 0.2,
            weight_rate: 0.1,
            weight_momentum: 0.9,
            weight_decay: 4e-5,
            clip: 5.0,
            logit_rate: 0.01,
            logit_decay: 5e-4,
            temperature: 5.0,
            cooling: 0.045,
            unrolled: false,
            samples: 1,
            cost: CostKind::Energy,
            lambda: 0.1,
            limit: None,
            cost_gradient: CostGradient::Reinforce,
            cost_samples: 16,
            label_smoothing: 0.1,
            mixup: 0.2,
            augment: true,
            spread: Spread::Range,
            seed: 1,
            precision: Precision::F32,
            budget: None,
            tightest: false,
        }
    }
}

impl Settings {
    /// The temperature of an epoch, from 0.
    pub fn temperature_of(&self, epoch: usize) -> f64 {
        self.temperature * (-self.cooling * epoch as f64).exp()
    }

    /// The learning rate of the weights in a step, from 0, of `steps` in an epoch.
    pub fn weight_rate_of(&self, step: usize, steps: usize) -> f64 {
        let part = step as f64 / (self.epochs * steps).max(1) as f64;
        0.5 * self.weight_rate * (1.0 + (std::f64::consts::PI * part).cos())
    }

    /// Refuses numbers that make no sense.
    ///
    /// # Errors
    /// A number out of range, by its name.
    pub fn check(&self) -> Result<()> {
        let positive = |name: &str, number: f64| match number.is_finite() && number > 0.0 {
            true => Ok(()),
            false => Err(Error::user(format!("{name} is {number}; choose a number above 0"))),
        };
        let from_zero = |name: &str, number: f64| match number.is_finite() && number >= 0.0 {
            true => Ok(()),
            false => Err(Error::user(format!("{name} is {number}; choose a number from 0"))),
        };
        let below_one = |name: &str, number: f64| match (0.0..1.0).contains(&number) {
            true => Ok(()),
            false => Err(Error::user(format!("{name} is {number}; choose one from 0 to below 1"))),
        };
        let counted = |name: &str, number: usize| match number {
            0 => Err(Error::user(format!("{name} is 0; choose at least 1"))),
            _ => Ok(()),
        };
        counted("epochs", self.epochs)?;
        counted("batch", self.batch)?;
        counted("samples", self.samples)?;
        counted("cost_samples", self.cost_samples)?;
        positive("clip", self.clip)?;
        positive("temperature", self.temperature)?;
        positive("validation", self.validation)?;
        below_one("validation", self.validation)?;
        below_one("weight_momentum", self.weight_momentum)?;
        below_one("label_smoothing", self.label_smoothing)?;
        from_zero("weight_rate", self.weight_rate)?;
        from_zero("weight_decay", self.weight_decay)?;
        from_zero("logit_rate", self.logit_rate)?;
        from_zero("logit_decay", self.logit_decay)?;
        from_zero("cooling", self.cooling)?;
        from_zero("lambda", self.lambda)?;
        from_zero("mixup", self.mixup)?;
        self.limit.map_or(Ok(()), |limit| positive("the limit", limit))
    }
}
