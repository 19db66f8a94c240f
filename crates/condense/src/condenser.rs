//! Condensation by gradient matching, one outer iteration after another (algorithm 1).

use crate::condensation::{Condensation, ImageUpdate, of_common};
use crate::condenser_functions::{Functions, VALIDATION};
use crate::functions::{of_size, plans};
use crate::matching::{CLASS, INTER, INTRA, KEEP_SYNTHETIC};
use crate::network::{Network, matched};
use crate::network_update::{CHOSEN, CLASSES, LOSS, NETWORK_MOMENTUM_RATE, NETWORK_RATE, SEEN, dropout_key};
use crate::objective::Objective;
use crate::real_gradients::{CHUNK, KEEP, KEEP_MEAN, REAL, SHARE};
use crate::second_derivative::check_second_derivative;
use crate::settings::Settings;
use crate::siamese_graph::ChangeArrays;
use crate::synthetic::{Synthetic, drawn};
use lessen_base::{Error, Result, SplitMix64};
use lessen_compile::Plan;
use lessen_data::images::{ImageSource, LabelledImages};
use lessen_device::{Host, SharedDevice};
use lessen_nn::names::KEY;
use lessen_nn::{ParamSpec, Weights};
use std::sync::Arc;

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
        settings.check_is(Objective::Gradients)?;
        let mut common = Synthetic::new(device, network, source, settings)?;
        let layers: Vec<String> = matched(&common.params).map(|param| param.name.clone()).collect();
        if layers.is_empty() {
            return Err(Error::user(
                "the network has no matrix and no kernel whose gradient could be matched; give it a linear layer or a \
                 convolution",
            ));
        }
        check_second_derivative(network, source.shape())?;
        let functions = Functions::compile(&mut common, network)?;
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
        let number = self.common.done * self.common.settings.updates + update;
        let matching = &self.functions.matchings[number % self.functions.matchings.len()];
        let (classes, real_batch) = (self.common.by_class.len(), self.common.real_batch());
        let changes = self.common.draw_changes_alike(random);
        for class in 0..classes {
            let chosen: Vec<usize> = drawn(&self.common.by_class[class], real_batch, random).collect();
            let number_of_class = [class as i32];
            for (number, chunk) in chosen.chunks(CHUNK).enumerate() {
                let real = self.common.source.gather(chunk)?;
                let keep = [class + number, number].map(|past| [if past == 0 { 0.0 } else { 1.0 }]);
                let share = [chunk.len() as f32 / real_batch as f32];
                let function = of_size(&matching.real, chunk.len())?;
                let mut inputs = vec![
                    (REAL, Host::F32(&real)),
                    (CLASS, Host::I32(&number_of_class)),
                    (SHARE, Host::F32(&share)),
                    (KEEP, Host::F32(&keep[1])),
                    (KEEP_MEAN, Host::F32(&keep[0])),
                ];
                inputs.extend(changes.get(class).into_iter().flat_map(ChangeArrays::inputs));
                self.common.session.run(function, &inputs)?;
            }
        }
        if let Some(mean) = matching.mean {
            for class in 0..classes {
                let keep = [if class == 0 { 0.0 } else { 1.0 }];
                let number = [class as i32];
                let mut inputs = vec![(CLASS, Host::I32(&number)), (KEEP_SYNTHETIC, Host::F32(&keep))];
                inputs.extend(changes.get(class).into_iter().flat_map(ChangeArrays::inputs));
                self.common.session.run(mean, &inputs)?;
            }
        }
        let rates = self.common.rates();
        let mut distances = vec![0.0; self.layers.len()];
        for class in 0..classes {
            let number = [class as i32];
            let mut inputs = vec![(CLASS, Host::I32(&number))];
            inputs.extend(rates.iter().map(|(name, rate)| (*name, Host::F32(rate))));
            inputs.extend(changes.get(class).into_iter().flat_map(ChangeArrays::inputs));
            let results = self.common.session.run(matching.update, &inputs)?;
            // The distance of all classes together is the same in each of them.
            for name in results
                .names()
                .filter(|name| *name == INTRA || class == 0 && *name == INTER)
            {
                let found = results.f32(name)?;
                distances.iter_mut().zip(found).for_each(|(sum, own)| *sum += own);
            }
        }
        Ok(distances)
    }

    /// Trains the network after update number `update`; returns the epochs. Where overfitting is told, it is until the
    /// loss of real images is higher than before the epoch, the first one too.
    fn train(
        &mut self,
        update: usize,
        validation: Option<&(Vec<f32>, Vec<i32>)>,
        random: &mut SplitMix64,
    ) -> Result<usize> {
        let mut before = self.validation_loss(validation)?;
        for epoch in 0..self.common.settings.epochs.most(update) {
            self.epoch(random)?;
            let after = self.validation_loss(validation)?;
            if after > before {
                return Ok(epoch + 1);
            }
            before = after;
        }
        Ok(self.common.settings.epochs.most(update))
    }

    /// The loss of the fixed batch of real images, `L(T, theta)`; 0 where overfitting is not told.
    fn validation_loss(&mut self, validation: Option<&(Vec<f32>, Vec<i32>)>) -> Result<f64> {
        let (Some(function), Some((seen, classes))) = (self.functions.validation, validation) else {
            return Ok(0.0);
        };
        let inputs = [(SEEN, Host::F32(seen)), (CLASSES, Host::I32(classes))];
        self.common.session.run(function, &inputs)?.scalar(LOSS)
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
            let rates = self.common.network_rates(self.has_moved);
            let step = self.functions.steps.iter().find(|(batch, _)| *batch == chosen.len());
            let Some(&(_, step)) = step else {
                return Err(Error::user(
                    "the settings have no epoch of the network after an update of the images; ask for 2 updates and 1 \
                     epoch at least",
                ));
            };
            let changes = self.common.draw_changes_of_each(chosen.len(), random);
            let key = dropout_key(random);
            let mut inputs = vec![
                (KEY, Host::U32(&key)),
                (CHOSEN, Host::I32(chosen)),
                (CLASSES, Host::I32(&classes)),
                (NETWORK_RATE, Host::F32(&rates[0])),
                (NETWORK_MOMENTUM_RATE, Host::F32(&rates[1])),
            ];
            inputs.extend(changes.iter().flat_map(ChangeArrays::inputs));
            self.common.session.run(step, &inputs)?;
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
    of_common!();

    /// Names of the parameters whose gradients are matched.
    fn layers(&self) -> &[String] {
        &self.layers
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

    /// `real 256`, the gradients of that many real images of a class; `mean`, the gradients of the synthetic images of
    /// a class; `update`, the update of the images of a class; `step 100`, a step of the network on that many
    /// synthetic images; `validation`, the loss of real images. Where updates of two kinds alternate, there are two
    /// plans of a name.
    fn plans(&self) -> Result<Vec<(String, Arc<Plan>)>> {
        plans(&self.common.session, self.functions.named())
    }
}
