//! A search, one epoch after another (algorithm 2).

use crate::batches::Batches;
use crate::cost::{CostTable, Costs};
use crate::derive::derive;
use crate::gates::Gates;
use crate::reinforce::{Estimate, reinforce};
use crate::settings::{CostGradient, Settings};
use crate::space::{Choice, Space};
use crate::steps::{
    CLASS_LOGITS, COST_GRADIENT, IMAGES, INVERSE_TEMPERATURE, LOGIT_RATE, LOGIT_STEP, LOGITS, LOSS, MOMENTS, NOISE,
    Steps, TARGETS, VALIDATION_IMAGES, VALIDATION_TARGETS, WEIGHT_RATE, momentum_of,
};
use crate::variables::{Variables, gumbel};
use lessen_base::{Error, Result, SplitMix64};
use lessen_compile::Plan;
use lessen_condense::ImageSource;
use lessen_data::images::Mixing;
use lessen_device::{Host, HostArray, SharedDevice};
use lessen_graph::{DType, Trace};
use lessen_nn::layers::Spread;
use lessen_nn::models::vision::MixedArchitecture;
use lessen_nn::{Context, ParamSpec, Weight, Weights};
use lessen_train::{Function, FunctionOptions, Session};
use std::sync::Arc;

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

/// A search: a supernet, and the logits of its choices. Both have their own optimizers.
///
/// All random numbers depend on the seed and the number of the epoch alone, so a search that is resumed from a state
/// ends with the bits of one that was not interrupted.
pub struct Searcher<'a> {
    space: Space,
    variables: Variables,
    table: CostTable,
    settings: Settings,
    source: &'a dyn ImageSource,
    /// The images on which weights and architecture are updated.
    parts: [Vec<usize>; 2],
    params: Vec<ParamSpec>,
    session: Session,
    weights: Function,
    architecture: Function,
    done: usize,
}

impl<'a> Searcher<'a> {
    /// Prepares a search: the costs of all choices are told, graphs are compiled and weights drawn.
    ///
    /// # Errors
    /// Settings or a space out of range, a space with a single network, bits that the hardware does not have, a limit
    /// that no network meets (with the least cost), too few images, a budget below the floor.
    pub fn new(
        device: impl Into<SharedDevice>,
        space: Space,
        costs: &Costs<'_>,
        source: &'a dyn ImageSource,
        settings: Settings,
    ) -> Result<Searcher<'a>> {
        settings.check()?;
        space.check()?;
        let variables = Variables::of(&space);
        if variables.is_empty() {
            return Err(Error::user(
                "the space has a single network, and there is nothing to search; give some choice several possibilities",
            ));
        }
        let table = CostTable::new(&space, costs)?;
        table.check_limit(settings.limit, settings.cost)?;
        let parts = parted(source, &settings)?;
        let params = parameters(&space, source)?;
        let mut session = Session::zeros(device, params.clone())?;
        session.set_precision(settings.precision);
        let options = FunctionOptions {
            training: true,
            budget: settings.budget,
            tightest: settings.tightest,
            ..FunctionOptions::default()
        };
        let steps = Steps {
            space: &space,
            variables: &variables,
            settings: &settings,
            shape: source.shape(),
            classes: source.classes(),
        };
        let weights = session.function_with(options, |cx| steps.add_weights(cx, &params))?;
        let architecture = session.function_with(options, |cx| steps.add_architecture(cx, &params))?;
        session.draw(|_| true, settings.seed)?;
        Ok(Searcher {
            space,
            variables,
            table,
            settings,
            source,
            parts,
            params,
            session,
            weights,
            architecture,
            done: 0,
        })
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The choices that are open.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// The costs of all choices.
    pub fn table(&self) -> &CostTable {
        &self.table
    }

    /// Epochs done.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Weights of the supernet.
    pub fn params(&self) -> &[ParamSpec] {
        &self.params
    }

    /// Images on which weights and architecture are updated.
    pub fn images(&self) -> [usize; 2] {
        [self.parts[0].len(), self.parts[1].len()]
    }

    /// Steps of an epoch.
    pub fn steps(&self) -> usize {
        self.parts[0].len() / self.settings.batch
    }

    /// The session with all states.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The plans of all functions: `weights` and `architecture`, an update of each.
    ///
    /// # Errors
    /// None, as long as the search has its functions.
    pub fn plans(&self) -> Result<Vec<(String, Arc<Plan>)>> {
        let named = [("weights", self.weights), ("architecture", self.architecture)];
        let plan = |(name, function): (&str, Function)| Ok((name.to_string(), self.session.plan(function)?));
        named.into_iter().map(plan).collect()
    }

    /// Bytes of the arrays that a step makes on the host.
    pub fn array_bytes(&self) -> usize {
        let image = 4 * self.source.size();
        let order = size_of::<usize>() * (self.parts[0].len() + self.parts[1].len());
        2 * self.settings.batch * (image + 4 * self.source.classes()) + 2 * image + order
    }

    /// Allocates the memory of runs; without this call, the first run does.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn reserve(&mut self) -> Result<()> {
        self.session.reserve()
    }

    /// The logits of the choices.
    ///
    /// # Errors
    /// A device that fails.
    pub fn logits(&self) -> Result<Vec<f64>> {
        Ok(self.elements(LOGITS)?.into_iter().map(f64::from).collect())
    }

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
        let batches = Batches {
            augment: self.settings.augment,
            smoothing: self.settings.label_smoothing,
            mixing: Mixing {
                mixup: Some(self.settings.mixup).filter(|mixup| *mixup > 0.0),
                cutmix: None,
            },
        };
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
        let of = |variable: &crate::Variable| {
            let own = probabilities[variable.first..][..variable.count].iter();
            let entropy: f64 = own.filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
            entropy / (variable.count as f64).ln()
        };
        let all = self.variables.all();
        all.iter().map(of).sum::<f64>() / all.len() as f64
    }

    /// The choice of each block that the search ends with; see [`derive()`].
    ///
    /// # Errors
    /// A device that fails.
    pub fn choices(&self) -> Result<Vec<Choice>> {
        derive(&self.space, &self.logits()?, &self.table, self.settings.limit)
    }

    /// The network of these choices.
    ///
    /// # Errors
    /// A device that fails.
    pub fn derived(&self) -> Result<MixedArchitecture> {
        Ok(self.space.architecture(&self.choices()?))
    }

    fn elements(&self, name: &str) -> Result<Vec<f32>> {
        let state = self.session.state(name)?;
        let elements = state.host().as_f32().map(<[f32]>::to_vec);
        elements.ok_or_else(|| Error::internal(format!("the state `{name}` is not f32")))
    }

    /// The states that are kept from one epoch to the next, with their shapes.
    fn kept(&self) -> Vec<(String, Vec<usize>)> {
        let of_param =
            |param: &ParamSpec| [param.name.clone(), momentum_of(&param.name)].map(|name| (name, param.shape.clone()));
        let logits = [LOGITS, MOMENTS[0], MOMENTS[1]].map(|name| (name.to_string(), vec![self.variables.len()]));
        self.params.iter().flat_map(of_param).chain(logits).collect()
    }

    /// All that the next epoch depends on beside its number, by name.
    ///
    /// # Errors
    /// A device that fails.
    pub fn state(&self) -> Result<Weights> {
        let weight = |(name, shape): (String, Vec<usize>)| {
            let data = self.elements(&name)?;
            Ok((name, Weight { shape, data }))
        };
        self.kept().into_iter().map(weight).collect()
    }

    /// Continues after `done` epochs from the [`Searcher::state`] after them.
    ///
    /// # Errors
    /// A state of another space or other images; nothing has changed then.
    pub fn resume(&mut self, done: usize, state: &Weights) -> Result<()> {
        let mut arrays = Vec::new();
        for (name, shape) in self.kept() {
            let fits = |saved: &&Weight| saved.shape == shape && saved.data.len() == shape.iter().product::<usize>();
            let Some(saved) = state.get(&name).filter(fits) else {
                return Err(Error::user(format!(
                    "the saved search has no `{name}` of shape {shape:?}; resume with the data and settings of the first \
                     command"
                )));
            };
            arrays.push((name, HostArray::F32(saved.data.clone())));
        }
        for (name, array) in arrays {
            self.session.set_state(&name, &array)?;
        }
        self.done = done;
        Ok(())
    }
}

/// The images on which weights and architecture are updated, the same share of each class.
fn parted(source: &dyn ImageSource, settings: &Settings) -> Result<[Vec<usize>; 2]> {
    let mut random = SplitMix64::named(settings.seed, "search.parts");
    let mut parts = [Vec::new(), Vec::new()];
    for mut class in source.by_class() {
        random.shuffle(&mut class);
        let kept = (class.len() as f64 * settings.validation).round() as usize;
        parts[1].extend_from_slice(&class[..kept]);
        parts[0].extend_from_slice(&class[kept..]);
    }
    if parts[0].len() < settings.batch || parts[1].is_empty() {
        return Err(Error::user(format!(
            "of {} images {} are left for the weights and {} for the architecture, and a batch has {}; give more images or \
             choose a smaller batch",
            source.labels().len(),
            parts[0].len(),
            parts[1].len(),
            settings.batch
        )));
    }
    Ok(parts)
}

/// The weights of the supernet of a space.
///
/// # Errors
/// Images that its networks cannot read.
pub(crate) fn parameters(space: &Space, source: &dyn ImageSource) -> Result<Vec<ParamSpec>> {
    let [height, width, channels] = source.shape();
    let trace = Trace::new();
    trace.attempt(|| {
        let cx = Context::new(&trace, true);
        let images = cx.input("images", DType::F32, &[2, height, width, channels]);
        let gates = Gates::of_network(&trace, space, &vec![[0; 5]; space.blocks.len()]);
        space.supernet(&cx, images, (source.classes(), Spread::default()), &gates);
        cx.params()
    })
}

/// The place of the greatest number; of equal ones the first.
pub(crate) fn largest(numbers: &[f32]) -> usize {
    (1..numbers.len()).fold(
        0,
        |best, place| if numbers[place] > numbers[best] { place } else { best },
    )
}
