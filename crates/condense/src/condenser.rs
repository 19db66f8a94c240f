//! Condensation by gradient matching, one outer iteration after another (algorithm 1).

use crate::condensation::{Condensation, ImageUpdate};
use crate::images::{ImageSource, LabelledImages};
use crate::matching::{DISTANCES, IMAGE_MOMENTUM_RATE, IMAGE_RATE, Matching, REAL};
use crate::network::{Network, matched};
use crate::network_update::{self, CHOSEN, CLASSES, LOSS, NETWORK_MOMENTUM_RATE, NETWORK_RATE, SEEN};
use crate::schedule::InnerEpochs;
use crate::settings::{Level, Settings};
use crate::synthetic::{Synthetic, drawn};
use lessen_base::{Error, Result, SplitMix64};
use lessen_compile::Plan;
use lessen_device::{Host, SharedDevice};
use lessen_nn::{ParamSpec, Weights};
use lessen_train::{Function, FunctionOptions, Session};
use std::sync::Arc;

/// Real images whose loss tells that a network overfits.
const VALIDATION: usize = 256;

/// Functions of a condensation.
struct Functions {
    /// Updates of the images, one after another in turn.
    matchings: Vec<Function>,
    /// Steps of the network by batch size.
    steps: Vec<(usize, Function)>,
    /// The loss of the fixed batch of real images.
    validation: Option<Function>,
}

/// A condensation by gradient matching: synthetic images, and the network of the present outer iteration.
pub struct Condenser<'a> {
    network: &'a dyn Network,
    layers: Vec<String>,
    common: Synthetic<'a>,
    functions: Functions,
    /// Whether the network has been updated since it was drawn: its momentum counts from then on.
    has_moved: bool,
}

impl<'a> Condenser<'a> {
    /// Prepares a condensation: graphs are compiled and memory is allocated.
    ///
    /// # Errors
    /// Settings out of range; a class with fewer real images than synthetic ones; images that the network cannot read;
    /// an operation without a second derivative, by its name; a budget below the floor.
    pub fn new(
        device: impl Into<SharedDevice>,
        network: &'a dyn Network,
        source: &'a dyn ImageSource,
        settings: Settings,
    ) -> Result<Condenser<'a>> {
        let mut common = Synthetic::new(device, network, source, settings)?;
        let layers: Vec<String> = matched(&common.params).map(|param| param.name.clone()).collect();
        if layers.is_empty() {
            return Err(Error::user(
                "the network has no matrix and no kernel whose gradient could be matched; give it a linear layer or a \
                 convolution",
            ));
        }
        let functions = compiled(&mut common, network)?;
        common.compile_statistics(network)?;
        common.start()?;
        Ok(Condenser {
            network,
            layers,
            common,
            functions,
            has_moved: false,
        })
    }

    /// The network that is matched.
    pub fn network(&self) -> &'a dyn Network {
        self.network
    }

    /// The parameters of the network.
    pub fn params(&self) -> &[ParamSpec] {
        &self.common.params
    }

    /// Real images of a class in an update: the setting, or the number of images of the smallest class.
    pub fn real_batch(&self) -> usize {
        self.common.real_batch()
    }

    /// The plan of an update of the images: of the first one, where two alternate.
    ///
    /// # Errors
    /// None, as long as the condensation has its functions.
    pub fn plan(&self) -> Result<Arc<Plan>> {
        self.common.session.plan(self.functions.matchings[0])
    }

    /// Draws a new network, as an outer iteration does first.
    ///
    /// # Errors
    /// A device that fails.
    pub fn draw_network(&mut self, seed: u64) -> Result<()> {
        self.has_moved = false;
        self.common.draw_network(seed)
    }

    /// Gives the network these parameters in place of drawn ones, for loops of one's own; a parameter that `weights`
    /// lacks keeps its value.
    ///
    /// # Errors
    /// A name that the network does not have, a wrong shape or number of elements; no parameter has changed then.
    pub fn set_network(&mut self, weights: &Weights) -> Result<()> {
        self.common.session.set_weights(weights)?;
        self.has_moved = false;
        Ok(())
    }

    /// Updates the images once, as update number `update` of an outer iteration, on real images that `random` chooses;
    /// returns the distance of each matched parameter. [`Condensation::iterate`] calls it as often as the settings say.
    ///
    /// # Errors
    /// An image that cannot be read, a device that fails.
    pub fn update_images(&mut self, update: usize, random: &mut SplitMix64) -> Result<Vec<f32>> {
        self.common.set_statistics(random)?;
        let real = self.common.draw_real(self.real_batch(), random)?;
        let number = self.common.done * self.common.settings.updates + update;
        let function = self.functions.matchings[number % self.functions.matchings.len()];
        let [rate, momentum] =
            [self.common.settings.image_rate, self.common.settings.image_momentum].map(|rate| [rate as f32]);
        let results = self.common.session.run(
            function,
            &[
                (REAL, Host::F32(&real)),
                (IMAGE_RATE, Host::F32(&rate)),
                (IMAGE_MOMENTUM_RATE, Host::F32(&momentum)),
            ],
        )?;
        Ok(results.f32(DISTANCES)?.to_vec())
    }

    /// Trains the network after update number `update`; returns the epochs.
    fn train(
        &mut self,
        update: usize,
        validation: Option<&(Vec<f32>, Vec<i32>)>,
        random: &mut SplitMix64,
    ) -> Result<usize> {
        let mut best = f64::INFINITY;
        for epoch in 0..self.common.settings.epochs.most(update) {
            self.epoch(random)?;
            if let (Some(function), Some((seen, classes))) = (self.functions.validation, validation) {
                let inputs = [(SEEN, Host::F32(seen)), (CLASSES, Host::I32(classes))];
                let loss = self.common.session.run(function, &inputs)?.scalar(LOSS)?;
                if loss > best {
                    return Ok(epoch + 1);
                }
                best = loss;
            }
        }
        Ok(self.common.settings.epochs.most(update))
    }

    /// Trains the network for an epoch over the synthetic images, in an order that `random` chooses.
    ///
    /// # Errors
    /// Settings in which no epoch follows an update of the images; a device that fails.
    pub fn epoch(&mut self, random: &mut SplitMix64) -> Result<()> {
        let labels = self.common.labels();
        let mut order: Vec<i32> = (0..labels.len() as i32).collect();
        random.shuffle(&mut order);
        for chosen in order.chunks(self.common.settings.network_batch) {
            let classes: Vec<i32> = chosen.iter().map(|image| labels[*image as usize] as i32).collect();
            let momentum = if self.has_moved {
                self.common.settings.network_momentum
            } else {
                0.0
            };
            let rates = [self.common.settings.network_rate, momentum].map(|rate| [rate as f32]);
            let step = self.functions.steps.iter().find(|(batch, _)| *batch == chosen.len());
            let Some(&(_, step)) = step else {
                return Err(Error::user(
                    "the settings have no epoch of the network after an update of the images; ask for 2 updates and 1 \
                     epoch at least",
                ));
            };
            self.common.session.run(
                step,
                &[
                    (CHOSEN, Host::I32(chosen)),
                    (CLASSES, Host::I32(&classes)),
                    (NETWORK_RATE, Host::F32(&rates[0])),
                    (NETWORK_MOMENTUM_RATE, Host::F32(&rates[1])),
                ],
            )?;
            self.has_moved = true;
        }
        Ok(())
    }

    /// The fixed batch of real images of all classes by which overfitting is told.
    fn validation_batch(&self, random: &mut SplitMix64) -> Result<(Vec<f32>, Vec<i32>)> {
        let all: Vec<usize> = (0..self.common.source.labels().len()).collect();
        let chosen: Vec<usize> = drawn(&all, VALIDATION.min(all.len()), random).collect();
        let classes = chosen
            .iter()
            .map(|image| self.common.source.labels()[*image] as i32)
            .collect();
        Ok((self.common.source.gather(&chosen)?, classes))
    }
}

impl Condensation for Condenser<'_> {
    fn settings(&self) -> &Settings {
        &self.common.settings
    }

    /// Names of the parameters whose gradients are matched.
    fn layers(&self) -> &[String] {
        &self.layers
    }

    fn done(&self) -> usize {
        self.common.done
    }

    /// One outer iteration: a new network, and as many updates of the images as the settings say. `progress` hears of
    /// each update, after the epochs of the network that follow it.
    fn iterate(&mut self, progress: &mut dyn FnMut(&ImageUpdate) -> Result<()>) -> Result<()> {
        let mut random = self.common.random();
        self.draw_network(random.next_u64())?;
        let validation = match self.functions.validation {
            Some(_) => Some(self.validation_batch(&mut random)?),
            None => None,
        };
        for update in 0..self.common.settings.updates {
            let distances = self.update_images(update, &mut random)?;
            let mut epochs = 0;
            if update + 1 < self.common.settings.updates {
                epochs = self.train(update, validation.as_ref(), &mut random)?;
            }
            progress(&ImageUpdate {
                iteration: self.common.done,
                update,
                distances,
                epochs,
            })?;
        }
        self.common.done += 1;
        Ok(())
    }

    fn images(&self) -> Result<LabelledImages> {
        self.common.images()
    }

    fn state(&self) -> Result<Weights> {
        self.common.state()
    }

    fn resume(&mut self, done: usize, state: &Weights) -> Result<()> {
        self.common.resume(done, state)
    }

    fn session(&self) -> &Session {
        &self.common.session
    }

    fn reserve(&mut self) -> Result<()> {
        self.common.session.reserve()
    }
}

/// Compiles the functions of a condensation.
fn compiled(common: &mut Synthetic<'_>, network: &dyn Network) -> Result<Functions> {
    let (options, real_batch, count) = (common.options(), common.real_batch(), common.labels().len());
    let Synthetic {
        source,
        settings,
        params,
        session,
        ..
    } = common;
    let (classes, shape) = (source.classes(), source.shape());
    let training = FunctionOptions {
        training: true,
        ..options
    };
    let matching = |intra: Option<f64>, inter: Option<f64>| Matching {
        classes,
        per_class: settings.per_class,
        real_batch,
        shape,
        distance: settings.distance,
        intra,
        inter,
    };
    let lambda = settings.lambda.unwrap_or(classes as f64);
    let matchings = match settings.level {
        Level::Intra => vec![matching(Some(1.0), None)],
        Level::Inter => vec![matching(None, Some(lambda))],
        Level::Interleaved => vec![matching(Some(1.0), None), matching(None, Some(lambda))],
        Level::Multi => vec![matching(Some(1.0), Some(lambda))],
    };
    let matchings = matchings
        .into_iter()
        .map(|matching| session.function_with(options, |cx| matching.add(cx, network, params)));
    let matchings = matchings.collect::<Result<Vec<_>>>()?;
    let mut sizes = Vec::new();
    if settings.epochs_of_iteration() > 0 {
        let batch = settings.network_batch.min(count);
        sizes.push(batch);
        sizes.extend(Some(count % batch).filter(|rest| *rest > 0));
    }
    let steps = sizes.into_iter().map(|batch| {
        let add = session.function_with(training, |cx| {
            network_update::add_step(cx, network, params, (batch, count, shape))
        });
        add.map(|function| (batch, function))
    });
    let steps = steps.collect::<Result<Vec<_>>>()?;
    let validation = match settings.epochs {
        InnerEpochs::UntilOverfit(_) => {
            let batch = VALIDATION.min(source.labels().len());
            let add = session.function_with(options, |cx| network_update::add_loss(cx, network, (batch, shape)));
            Some(add?)
        }
        _ => None,
    };
    Ok(Functions {
        matchings,
        steps,
        validation,
    })
}
