//! What every condensation does, whatever it matches.

use crate::settings::Settings;
use lessen_base::Result;
use lessen_compile::Plan;
use lessen_data::images::LabelledImages;
use lessen_nn::Weights;
use lessen_train::Session;
use std::sync::Arc;

/// The methods of a [`Condensation`] that are those of its synthetic images, the field `common`.
macro_rules! of_common {
    () => {
        fn settings(&self) -> &$crate::settings::Settings {
            &self.common.settings
        }

        fn done(&self) -> usize {
            self.common.done
        }

        fn state(&self) -> lessen_base::Result<lessen_nn::Weights> {
            self.common.state()
        }

        fn resume(&mut self, done: usize, state: &lessen_nn::Weights) -> lessen_base::Result<()> {
            self.common.resume(done, state)
        }

        fn session(&self) -> &lessen_train::Session {
            &self.common.session
        }

        fn reserve(&mut self) -> lessen_base::Result<()> {
            self.common.session.reserve()
        }
    };
}

pub(crate) use of_common;

/// What an update of the images found.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageUpdate {
    /// Number of the outer iteration, from 0.
    pub iteration: usize,
    /// Number of the update in it, from 0.
    pub update: usize,
    /// The distances that the update makes smaller, in the order of [`Condensation::layers`].
    pub distances: Vec<f32>,
    /// Epochs of the network after it.
    pub epochs: usize,
}

/// A part of the work that precedes the first iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Preparation {
    /// Parts that are done, this one among them.
    pub done: usize,
    /// Parts in all.
    pub parts: usize,
    /// Mean loss of the networks that are trained in it.
    pub loss: f32,
}

/// A condensation: synthetic images that become better with each iteration.
///
/// All random numbers depend on the seed and the number of the iteration alone, so a condensation that is resumed from
/// a state ends with the bits of one that was not interrupted.
pub trait Condensation {
    /// The settings.
    fn settings(&self) -> &Settings;

    /// Names of the distances of an [`ImageUpdate`], in their order.
    fn layers(&self) -> &[String];

    /// Iterations done.
    fn done(&self) -> usize;

    /// Does what precedes the first iteration, unless it is done; `progress` hears of each part.
    ///
    /// # Errors
    /// An image that cannot be read, a device that fails, a file that cannot be read or written, an error of
    /// `progress`.
    fn prepare(&mut self, progress: &mut dyn FnMut(&Preparation) -> Result<()>) -> Result<()> {
        let _ = progress;
        Ok(())
    }

    /// One outer iteration; `progress` hears of each update of the images.
    ///
    /// # Errors
    /// An image that cannot be read, a device that fails, an error of `progress`.
    fn iterate(&mut self, progress: &mut dyn FnMut(&ImageUpdate) -> Result<()>) -> Result<()>;

    /// The synthetic images, class by class.
    ///
    /// # Errors
    /// A device that fails; images that have become infinite or NaN.
    fn images(&self) -> Result<LabelledImages>;

    /// The learning rate that was learned with the images, if one was; a training on them takes it.
    ///
    /// # Errors
    /// A device that fails.
    fn learned_rate(&self) -> Result<Option<f32>> {
        Ok(None)
    }

    /// All that the next iteration depends on beside its number, by name.
    ///
    /// # Errors
    /// A device that fails.
    fn state(&self) -> Result<Weights>;

    /// Continues after `done` iterations from the [`Condensation::state`] after them.
    ///
    /// # Errors
    /// A state of other settings or data; nothing has changed then.
    fn resume(&mut self, done: usize, state: &Weights) -> Result<()>;

    /// The session with all states.
    fn session(&self) -> &Session;

    /// The plans of all functions, with their names.
    ///
    /// # Errors
    /// None, as long as the condensation has its functions.
    fn plans(&self) -> Result<Vec<(String, Arc<Plan>)>>;

    /// Bytes of the host's memory that [`Condensation::prepare`] takes for a moment, beside a batch of images.
    fn preparation_bytes(&self) -> usize {
        0
    }

    /// Allocates the memory of runs; without this call, the first run does.
    ///
    /// # Errors
    /// Memory that the device does not have.
    fn reserve(&mut self) -> Result<()>;
}
