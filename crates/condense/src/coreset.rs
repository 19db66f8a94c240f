//! Coresets: real images that stand for their class, the plain relatives of condensed ones.

use crate::coreset_method::Coreset;
use crate::evaluation::{by_epoch, seed_of};
use crate::forgetting::Forgetting;
use crate::herding::herding;
use crate::k_center::k_center;
use crate::learner::{Learner, Presented};
use crate::learner_graph::Question;
use crate::network::Network;
use crate::synthetic::{check_classes, drawn};
use crate::training::TrainingSettings;
use lessen_base::{Error, Result, SplitMix64};
use lessen_data::images::ImageSource;
use lessen_device::SharedDevice;

/// The numbers of `per_class` images of each class, class by class. Where a network is trained on all images first,
/// `settings` say how, and `progress` hears the number of each epoch and the loss of its last batch.
///
/// # Errors
/// A class with fewer images; a network that tells no features where they are needed; the errors of
/// [`Learner::train`].
pub fn coreset(
    device: impl Into<SharedDevice>,
    network: &dyn Network,
    source: &dyn ImageSource,
    (method, per_class): (Coreset, usize),
    settings: &TrainingSettings,
    progress: &mut dyn FnMut(usize, f64) -> Result<()>,
) -> Result<Vec<usize>> {
    method.check(source, per_class)?;
    if method == Coreset::Random {
        return Ok(at_random(source, per_class, settings.seed));
    }
    let mut learner = Learner::new(device, network, (source.shape(), source.classes()), settings.clone())?;
    let mut seen = by_epoch(source.labels().len(), progress);
    method.choose(&mut learner, source, per_class, &mut seen)
}

impl Coreset {
    /// Refuses classes with fewer images.
    pub(crate) fn check(self, source: &dyn ImageSource, per_class: usize) -> Result<()> {
        if per_class == 0 {
            return Err(Error::user("0 images of a class teach nothing; ask for at least 1"));
        }
        check_classes(&source.by_class(), per_class)
    }

    /// What is asked of the trained network.
    pub(crate) fn questions(self) -> &'static [Question] {
        match self {
            Coreset::Herding | Coreset::KCenter => &[Question::Features],
            Coreset::Random | Coreset::Forgetting => &[],
        }
    }

    /// Chooses images, after it has trained the network on all of them where it needs it; `seen` hears of each batch.
    pub(crate) fn choose(
        self,
        learner: &mut Learner<'_>,
        source: &dyn ImageSource,
        per_class: usize,
        seen: &mut dyn FnMut(&Presented<'_>) -> Result<()>,
    ) -> Result<Vec<usize>> {
        let seed = learner.settings().seed;
        learner.restart(seed_of(seed, 0))?;
        let choose: fn(&[f32], usize, usize) -> Vec<usize> = match self {
            Coreset::Random => return Ok(at_random(source, per_class, seed)),
            Coreset::Forgetting => return most_forgotten(learner, source, per_class, seen),
            Coreset::KCenter => k_center,
            Coreset::Herding => herding,
        };
        learner.check_features()?;
        learner.train(source, seen)?;
        let mut chosen = Vec::new();
        for class in &source.by_class() {
            let features = learner.features(source, class)?;
            let width = features.len() / class.len();
            let places = choose(&features, width, per_class);
            chosen.extend(places.into_iter().map(|place| class[place]));
        }
        Ok(chosen)
    }
}

/// Images of each class at random.
pub(crate) fn at_random(source: &dyn ImageSource, per_class: usize, seed: u64) -> Vec<usize> {
    let mut random = SplitMix64::named(seed, "coreset");
    let by_class = source.by_class();
    let of_class = |class: &Vec<usize>| drawn(class, per_class, &mut random).collect::<Vec<_>>();
    by_class.iter().flat_map(of_class).collect()
}

/// The most forgotten images of each class.
fn most_forgotten(
    learner: &mut Learner<'_>,
    source: &dyn ImageSource,
    per_class: usize,
    seen: &mut dyn FnMut(&Presented<'_>) -> Result<()>,
) -> Result<Vec<usize>> {
    let labels = source.labels();
    let mut history = Forgetting::new(labels.len());
    learner.train(source, &mut |batch| {
        for (&image, &class) in batch.images.iter().zip(batch.predicted) {
            history.present(image, class == labels[image]);
        }
        seen(batch)
    })?;
    let by_class = source.by_class();
    let of_class = |class: &Vec<usize>| history.most_forgotten(class, per_class);
    Ok(by_class.iter().flat_map(of_class).collect())
}
