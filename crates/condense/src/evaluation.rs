//! How good are sets of images? Networks are trained on each of them from scratch and tested on other images.

use crate::divergence::Divergence;
use crate::learner::{Learner, Presented};
use crate::network::Network;
use crate::training::TrainingSettings;
use lessen_base::{Error, Result, SplitMix64};
use lessen_data::images::ImageSource;
use lessen_device::SharedDevice;
use std::fmt;

/// The accuracies of several networks, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    values: Vec<f64>,
}

impl Accuracy {
    /// Of these networks.
    ///
    /// # Errors
    /// No network.
    pub fn new(values: Vec<f64>) -> Result<Accuracy> {
        if values.is_empty() {
            return Err(nothing_to_test());
        }
        Ok(Accuracy { values })
    }

    /// The accuracy of each network, set by set.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Their mean.
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// Their sample deviation; `None` for a single network.
    pub fn deviation(&self) -> Option<f64> {
        let mean = self.mean();
        let squares: f64 = self.values.iter().map(|value| (value - mean) * (value - mean)).sum();
        (self.values.len() > 1).then(|| (squares / (self.values.len() - 1) as f64).sqrt())
    }

    /// The mean as a share of the mean of networks that were trained on the whole set.
    pub fn relative_to(&self, whole: &Accuracy) -> f64 {
        self.mean() / whole.mean()
    }
}

impl fmt::Display for Accuracy {
    /// Mean and deviation in percent, as tables have them: `91.7±0.4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", 100.0 * self.mean())?;
        match self.deviation() {
            Some(deviation) => write!(f, "±{:.1}", 100.0 * deviation),
            None => Ok(()),
        }
    }
}

/// What has been done of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Evaluated {
    /// A network has had one more epoch.
    Epoch {
        /// Number of the set.
        set: usize,
        /// Number of the network.
        network: usize,
        /// Number of the epoch, from 0.
        epoch: usize,
        /// The mean loss of its last batch.
        loss: f64,
    },
    /// A network has been tested.
    Network {
        /// Number of the set.
        set: usize,
        /// Number of the network.
        network: usize,
        /// Its accuracy.
        accuracy: f64,
    },
    /// The loss of a network has become infinite or NaN, so that it is not tested.
    Diverged {
        /// Number of the set.
        set: usize,
        /// Number of the network.
        network: usize,
        /// Epoch, loss and learning rate.
        divergence: Divergence,
    },
}

/// Trains `networks` networks on each of the sets, and tests each of them on `test`. All have initial values of their
/// own. The accuracies are in the order of the sets, of each set in the order of its networks.
///
/// # Errors
/// No set or network, images of another size or number of classes, settings out of range, a loss that is
/// infinite or NaN, a budget below the floor, an error of `progress`.
pub fn evaluate(
    device: impl Into<SharedDevice>,
    network: &dyn Network,
    (sets, test): (&[&dyn ImageSource], &dyn ImageSource),
    (settings, networks): (&TrainingSettings, usize),
    progress: &mut dyn FnMut(Evaluated) -> Result<()>,
) -> Result<Accuracy> {
    let mut learner = Learner::of_sets(device, network, (sets, test), settings, false)?;
    evaluate_by(&mut learner, (sets, test), networks, progress)
}

/// [`evaluate`] by a learner that is there.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_by(
    learner: &mut Learner<'_>,
    (sets, test): (&[&dyn ImageSource], &dyn ImageSource),
    networks: usize,
    progress: &mut dyn FnMut(Evaluated) -> Result<()>,
) -> Result<Accuracy> {
    let found = evaluate_each(learner, (sets, test), networks, &mut |event| match event {
        Evaluated::Diverged { divergence, .. } => Err(divergence.refusal()),
        event => progress(event),
    })?;
    Accuracy::new(found.into_iter().filter_map(std::result::Result::ok).collect())
}

/// As [`evaluate_by`], but goes on with the next network where a loss becomes infinite or NaN. Returns the accuracy of
/// each network, from 0 to 1, or its divergence, set by set.
///
/// # Errors
/// As [`evaluate`], but for a loss that is infinite or NaN.
pub fn evaluate_each(
    learner: &mut Learner<'_>,
    (sets, test): (&[&dyn ImageSource], &dyn ImageSource),
    networks: usize,
    progress: &mut dyn FnMut(Evaluated) -> Result<()>,
) -> Result<Vec<std::result::Result<f64, Divergence>>> {
    if sets.is_empty() || networks == 0 {
        return Err(nothing_to_test());
    }
    let seed = learner.settings().seed;
    let mut found = Vec::with_capacity(sets.len().saturating_mul(networks));
    for (set, images) in sets.iter().enumerate() {
        for network in 0..networks {
            learner.restart(seed_of(seed, found.len()))?;
            let mut epoch = |epoch: usize, loss: f64| {
                progress(Evaluated::Epoch {
                    set,
                    network,
                    epoch,
                    loss,
                })
            };
            let end = learner.train_while_finite(*images, &mut by_epoch(images.labels().len(), &mut epoch))?;
            match end {
                None => {
                    let accuracy = learner.accuracy(test)?;
                    found.push(Ok(accuracy));
                    progress(Evaluated::Network { set, network, accuracy })?;
                }
                Some(divergence) => {
                    found.push(Err(divergence));
                    progress(Evaluated::Diverged {
                        set,
                        network,
                        divergence,
                    })?;
                }
            }
        }
    }
    Ok(found)
}

/// The refusal of an evaluation of no network.
fn nothing_to_test() -> Error {
    Error::user("there is no network to test; train at least one")
}

/// The seed of a network by its number.
pub(crate) fn seed_of(seed: u64, number: usize) -> u64 {
    SplitMix64::keyed(seed, number as u64).next_u64()
}

/// Tells `progress` of each epoch over `count` images, by its number and the loss of its last batch.
pub(crate) fn by_epoch(
    count: usize,
    progress: &mut dyn FnMut(usize, f64) -> Result<()>,
) -> impl FnMut(&Presented<'_>) -> Result<()> {
    let mut shown = 0;
    move |batch| {
        shown += batch.images.len();
        if shown < count {
            return Ok(());
        }
        shown = 0;
        progress(batch.epoch, batch.loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_sample_deviations_are_those_of_the_field() {
        let accuracy = Accuracy::new(vec![0.9, 0.92, 0.94]).expect("three networks");
        assert!((accuracy.mean() - 0.92).abs() < 1e-12);
        assert!((accuracy.deviation().expect("three") - 0.02).abs() < 1e-12);
        assert_eq!(accuracy.to_string(), "92.0±2.0");
        let whole = Accuracy::new(vec![0.99]).expect("one network");
        assert_eq!((whole.deviation(), whole.to_string()), (None, "99.0".to_string()));
        assert!((accuracy.relative_to(&whole) - 0.92 / 0.99).abs() < 1e-12);
        assert!(Accuracy::new(Vec::new()).is_err());
    }
}
