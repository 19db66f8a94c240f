//! The choice of a coreset, driven like a condensation: what it prepares is the training of a network, and it has no
//! iterations.

use crate::condensation::{Condensation, ImageUpdate, Preparation};
use crate::coreset_method::Coreset;
use crate::learner::Learner;
use crate::network::Network;
use crate::objective::Objective;
use crate::schedule::InnerEpochs;
use crate::settings::Settings;
use crate::training::TrainingSettings;
use lessen_base::{Error, Result};
use lessen_compile::Plan;
use lessen_data::images::{ImageSource, LabelledImages};
use lessen_device::SharedDevice;
use lessen_nn::{Weight, Weights};
use lessen_train::{FunctionOptions, Session};
use std::sync::Arc;

/// Numbers that are kept of each image of the source while images are chosen, at most.
const NUMBERS_OF_AN_IMAGE: usize = 8;

/// The state with the numbers of the chosen images.
const CHOSEN: &str = "coreset.images";

/// Most images of which some are chosen: their numbers are exact in `f32`.
const MOST: usize = 1 << 24;

/// The choice of a coreset.
pub struct CoresetChoice<'a> {
    method: Coreset,
    source: &'a dyn ImageSource,
    settings: Settings,
    learner: Learner<'a>,
    /// Numbers of the chosen images, once they are chosen.
    chosen: Option<Vec<usize>>,
}

impl<'a> CoresetChoice<'a> {
    /// Prepares a choice: graphs are compiled.
    ///
    /// # Errors
    /// Settings out of range, or other than a coreset has; a class with fewer images; images that the network cannot
    /// read; a network that tells no features where they are needed; a budget below the floor.
    pub fn new(
        device: impl Into<SharedDevice>,
        network: &'a dyn Network,
        source: &'a dyn ImageSource,
        settings: Settings,
    ) -> Result<CoresetChoice<'a>> {
        settings.check()?;
        let Objective::Coreset(method) = settings.objective else {
            return Err(settings.is_of_another_objective("the choice of a coreset"));
        };
        if source.labels().len() > MOST {
            return Err(Error::user(format!(
                "coresets are chosen of at most {MOST} images, and there are {}; choose of a part of them",
                source.labels().len()
            )));
        }
        method.check(source, settings.per_class)?;
        let of_images = (source.shape(), source.classes());
        let options = FunctionOptions {
            budget: settings.budget,
            tightest: settings.tightest,
            ..FunctionOptions::default()
        };
        let mut learner = Learner::planned(device, network, of_images, training(&settings)?, options)?;
        if method.trains() {
            if !method.questions().is_empty() {
                learner.check_features()?;
            }
            learner.compile_for(source, method.questions())?;
        }
        Ok(CoresetChoice {
            method,
            source,
            settings,
            learner,
            chosen: None,
        })
    }
}

/// The training of the network.
fn training(settings: &Settings) -> Result<TrainingSettings> {
    let InnerEpochs::Fixed(epochs) = settings.epochs else {
        return Err(Error::user(format!(
            "epochs = {} has no meaning for a coreset; choose a number of epochs over all images",
            settings.epochs
        )));
    };
    Ok(TrainingSettings {
        epochs: Some(epochs),
        rate: settings.network_rate,
        momentum: settings.network_momentum,
        batch: settings.network_batch,
        seed: settings.seed,
        precision: settings.precision,
        budget: settings.budget,
        ..TrainingSettings::default()
    })
}

impl Condensation for CoresetChoice<'_> {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    /// None.
    fn layers(&self) -> &[String] {
        &[]
    }

    /// None: a choice has no iterations.
    fn done(&self) -> usize {
        0
    }

    /// Trains the network, each part a step, and chooses the images.
    fn prepare(&mut self, progress: &mut dyn FnMut(&Preparation) -> Result<()>) -> Result<()> {
        if self.chosen.is_some() {
            return Ok(());
        }
        let (method, per_class) = (self.method, self.settings.per_class);
        let training = self.learner.settings();
        let steps = self.source.labels().len().div_ceil(training.batch);
        let (mut done, parts) = (0, training.epochs().saturating_mul(steps));
        let chosen = method.choose(&mut self.learner, self.source, per_class, &mut |batch| {
            done += 1;
            progress(&Preparation {
                done,
                parts,
                loss: batch.loss as f32,
            })
        })?;
        self.chosen = Some(chosen);
        Ok(())
    }

    /// Refuses.
    fn iterate(&mut self, _: &mut dyn FnMut(&ImageUpdate) -> Result<()>) -> Result<()> {
        Err(Error::user(
            "a coreset is chosen, not learned; ask for no iterations of it",
        ))
    }

    fn images(&self) -> Result<LabelledImages> {
        match &self.chosen {
            Some(chosen) => LabelledImages::part_of(self.source, chosen),
            None => Err(Error::user("the images are not chosen yet; call `prepare` first")),
        }
    }

    /// The numbers of the chosen images, if they are chosen.
    fn state(&self) -> Result<Weights> {
        let weight = |chosen: &Vec<usize>| Weight {
            shape: vec![chosen.len()],
            data: chosen.iter().map(|image| *image as f32).collect(),
        };
        let chosen = self.chosen.iter();
        Ok(chosen.map(|chosen| (CHOSEN.to_string(), weight(chosen))).collect())
    }

    fn resume(&mut self, done: usize, state: &Weights) -> Result<()> {
        let count = self.settings.per_class * self.source.classes();
        let of_images = self.source.labels();
        let chosen = state.get(CHOSEN).map(|saved| {
            let numbers = saved.data.iter().map(|number| *number as usize);
            numbers.collect::<Vec<_>>()
        });
        let fits = |chosen: &Vec<usize>| chosen.len() == count && chosen.iter().all(|image| *image < of_images.len());
        if done > 0 || !chosen.iter().all(fits) {
            return Err(Error::user(
                "the saved state is not one of this coreset; resume with the data and settings of the first command",
            ));
        }
        self.chosen = chosen;
        Ok(())
    }

    fn session(&self) -> &Session {
        self.learner.session()
    }

    /// `step 256`, a step of the network on that many images; `features 256`, their features.
    fn plans(&self) -> Result<Vec<(String, Arc<Plan>)>> {
        self.learner.plans()
    }

    /// Of the largest class features, numbers and scores; of all images an order and what is known of them.
    fn preparation_bytes(&self) -> usize {
        if !self.method.trains() {
            return 0;
        }
        let by_class = self.source.by_class();
        let largest = by_class.iter().map(Vec::len).max().unwrap_or(0);
        let of_class = largest.saturating_mul(4 * self.learner.feature_width() + 6 * size_of::<f64>());
        let of_image = NUMBERS_OF_AN_IMAGE * size_of::<usize>();
        let of_all = self.source.labels().len().saturating_mul(of_image);
        of_class.saturating_add(of_all)
    }

    fn reserve(&mut self) -> Result<()> {
        self.learner.reserve()
    }
}
