//! An epoch of a search: updates of the weights and of the logits in turn.

use super::Searcher;
use crate::batches::{Batches, largest};
use crate::reinforce::{Estimate, reinforce};
use crate::settings::CostGradient;
use crate::steps::{
    CLASS_LOGITS, COST_GRADIENT, IMAGES, INVERSE_TEMPERATURE, LOGIT_RATE, LOGIT_STEP, LOSS, NOISE, TARGETS,
    VALIDATION_IMAGES, VALIDATION_TARGETS, WEIGHT_RATE,
};
use crate::variables::{Variable, gumbel};
use lessen_base::{Error, Result, SplitMix64};
use lessen_device::Host;

/// A step of a search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SearchStep {
    /// Number of the epoch, from 0.
    pub epoch: usize,
    /// Number of the step in it, from 0.
    pub step: usize,
    /// Steps of an epoch.
    pub steps: usize,
    /// Loss of the training images.
    pub loss: f64,
    /// Loss of the validation images, where the architecture was updated.
    pub validation_loss: Option<f64>,
}

/// What an epoch found.
#[derive(Clone, PartialEq, Debug)]
pub struct Epoch {
    /// Epochs done, this one among them.
    pub done: usize,
    /// Mean loss of the training images.
    pub loss: f64,
    /// Mean loss and accuracy on validation images, in the updates of the architecture; none where it is frozen.
    pub validation: Option<[f64; 2]>,
    /// The temperature.
    pub temperature: f64,
    /// The exact mean cost of the networks by their probabilities after the epoch.
    pub mean_cost: f64,
    /// The cost of the network of the most probable possibilities.
    pub cost: f64,
    /// The mean entropy of the choices, as a share of that of equal probabilities.
    pub entropy: f64,
}

impl Searcher<'_> {
    /// An epoch over the images on which the weights are trained; `progress` hears of each step.
    ///
    /// # Errors
    /// An image that cannot be read, a device that fails, a loss that is infinite or NaN, an error of `progress`.
    pub fn epoch(&mut self, progress: &mut dyn FnMut(&SearchStep) -> Result<()>) -> Result<Epoch> {
        let mut random = SplitMix64::keyed(self.settings.seed, self.done as u64);
        let mut orders = self.parts.clone();
        orders.iter_mut().for_each(|order| random.shuffle(order));
        let (steps, batch) = (self.steps(), self.settings.batch);
        let moves = self.done >= self.settings.frozen_epochs;
        let batches = Batches::training(&self.settings);
        let (mut loss, mut validation) = (0.0, [0.0; 2]);
        for step in 0..steps {
            let chosen = &orders[0][step * batch..][..batch];
            let training = batches.of(self.source, chosen, &mut random)?;
            let own = self.update_weights(step, &training, &mut random)?;
            let mut found = None;
            if moves {
                let chosen: Vec<usize> = (0..batch)
                    .map(|at| orders[1][(step * batch + at) % orders[1].len()])
                    .collect();
                let pair = Batches::PLAIN.of(self.source, &chosen, &mut random)?;
                let [loss, right] = self.update_architecture(step, &training, &pair, &mut random)?;
                validation = [validation[0] + loss, validation[1] + right];
                found = Some(loss);
            }
            if !own.is_finite() || found.is_some_and(|loss| !loss.is_finite()) {
                return Err(Error::user(format!(
                    "the loss is not finite in epoch {} of the search; choose a smaller learning rate of the weights or of \
                     the logits",
                    self.done + 1
                )));
            }
            loss += own;
            progress(&SearchStep {
                epoch: self.done,
                step,
                steps,
                loss: own,
                validation_loss: found,
            })?;
        }
        let temperature = self.settings.temperature_of(self.done);
        self.done += 1;
        let (logits, count) = (self.logits()?, steps as f64);
        let probabilities = self.variables.probabilities(&logits);
        let places = self.variables.most_probable(&logits);
        Ok(Epoch {
            done: self.done,
            loss: loss / count,
            validation: moves.then(|| validation.map(|sum| sum / count)),
            temperature,
            mean_cost: self.table.expected(&self.space, &self.variables, &probabilities).0,
            cost: self.table.of(&self.space, &self.variables.choices(&places)),
            entropy: self.entropy(&probabilities),
        })
    }

    /// An update of the weights; returns the loss.
    fn update_weights(
        &mut self,
        step: usize,
        (images, targets): &(Vec<f32>, Vec<f32>),
        random: &mut SplitMix64,
    ) -> Result<f64> {
        let noise = gumbel(self.variables.len(), random);
        let rate = [self.rate(step)];
        let inverse = [self.inverse_temperature()];
        let inputs = [
            (IMAGES, Host::F32(images)),
            (TARGETS, Host::F32(targets)),
            (NOISE, Host::F32(&noise)),
            (INVERSE_TEMPERATURE, Host::F32(&inverse)),
            (WEIGHT_RATE, Host::F32(&rate)),
        ];
        self.session.run(self.weights, &inputs)?.scalar(LOSS)
    }

    /// An update of the logits; returns loss and accuracy on the validation images.
    fn update_architecture(
        &mut self,
        step: usize,
        training: &(Vec<f32>, Vec<f32>),
        (images, targets): &(Vec<f32>, Vec<f32>),
        random: &mut SplitMix64,
    ) -> Result<[f64; 2]> {
        let noise = gumbel(self.settings.samples * self.variables.len(), random);
        let of_cost: Vec<f32> = self.cost_gradient(random)?.iter().map(|x| *x as f32).collect();
        let number = (self.done - self.settings.frozen_epochs) * self.steps() + step + 1;
        let rates = [self.rate(step), self.settings.logit_rate as f32, number as f32].map(|rate| [rate]);
        let inverse = [self.inverse_temperature()];
        let inputs = [
            (IMAGES, Host::F32(&training.0)),
            (TARGETS, Host::F32(&training.1)),
            (VALIDATION_IMAGES, Host::F32(images)),
            (VALIDATION_TARGETS, Host::F32(targets)),
            (NOISE, Host::F32(&noise)),
            (INVERSE_TEMPERATURE, Host::F32(&inverse)),
            (WEIGHT_RATE, Host::F32(&rates[0])),
            (LOGIT_RATE, Host::F32(&rates[1])),
            (LOGIT_STEP, Host::F32(&rates[2])),
            (COST_GRADIENT, Host::F32(&of_cost)),
        ];
        let results = self.session.run(self.architecture, &inputs)?;
        let classes = self.source.classes();
        let answers = results.f32(CLASS_LOGITS)?.chunks_exact(classes);
        let right = answers
            .zip(targets.chunks_exact(classes))
            .filter(|(answer, target)| largest(answer) == largest(target));
        Ok([results.scalar(LOSS)?, right.count() as f64 / self.settings.batch as f64])
    }

    /// The derivative of lambda times the mean cost beyond the limit (equation 2.29).
    fn cost_gradient(&self, random: &mut SplitMix64) -> Result<Vec<f64>> {
        let probabilities = self.variables.probabilities(&self.logits()?);
        let Estimate { mean, mut gradient } = match self.settings.cost_gradient {
            CostGradient::Reinforce => {
                let samples = self.settings.cost_samples;
                reinforce(&self.variables, &probabilities, samples, random, &mut |places| {
                    self.table.of(&self.space, &self.variables.choices(places))
                })
            }
            CostGradient::Exact => {
                let (mean, gradient) = self.table.expected(&self.space, &self.variables, &probabilities);
                Estimate { mean, gradient }
            }
        };
        let is_beyond = self.settings.limit.is_none_or(|limit| mean > limit);
        let factor = if is_beyond { self.settings.lambda } else { 0.0 };
        gradient.iter_mut().for_each(|part| *part *= factor);
        Ok(gradient)
    }

    fn rate(&self, step: usize) -> f32 {
        let steps = self.steps();
        self.settings.weight_rate_of(self.done * steps + step, steps) as f32
    }

    fn inverse_temperature(&self) -> f32 {
        (1.0 / self.settings.temperature_of(self.done)) as f32
    }

    /// The mean entropy of the choices, as a share of that of equal probabilities.
    fn entropy(&self, probabilities: &[f64]) -> f64 {
        let of = |variable: &Variable| {
            let own = probabilities[variable.first..][..variable.count].iter();
            let entropy: f64 = own.filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
            entropy / (variable.count as f64).ln()
        };
        let all = self.variables.all();
        all.iter().map(of).sum::<f64>() / all.len() as f64
    }
}
