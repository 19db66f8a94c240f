//! Coresets: real images that stand for their class, the plain relatives of condensed ones.

use crate::evaluation::{seed_of, train};
use crate::forgetting::Forgetting;
use crate::herding::herding;
use crate::images::ImageSource;
use crate::k_center::k_center;
use crate::learner::Learner;
use crate::network::Network;
use crate::synthetic::{check_classes, drawn};
use crate::training::TrainingSettings;
use lessen_base::{Error, Result, SplitMix64};
use lessen_device::SharedDevice;
use std::fmt;
use std::str::FromStr;

/// How images are chosen, class by class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coreset {
    /// At random.
    Random,
    /// By [`herding`] of the features of a network that was trained on all images.
    Herding,
    /// By [`k_center`] of these features.
    KCenter,
    /// The images that a network forgets most often while it is trained on all of them; see [`Forgetting`].
    Forgetting,
}

/// All methods with their words.
const METHODS: [(Coreset, &str); 4] = [
    (Coreset::Random, "random"),
    (Coreset::Herding, "herding"),
    (Coreset::KCenter, "k-center"),
    (Coreset::Forgetting, "forgetting"),
];

impl Coreset {
    /// The words of all methods.
    pub const WORDS: [&'static str; METHODS.len()] = [METHODS[0].1, METHODS[1].1, METHODS[2].1, METHODS[3].1];

    /// Whether a network is trained on all images first.
    pub fn trains(self) -> bool {
        self != Coreset::Random
    }
}

impl FromStr for Coreset {
    type Err = Error;

    fn from_str(word: &str) -> Result<Coreset> {
        let found = METHODS.iter().find(|(_, own)| *own == word);
        found.map(|(method, _)| *method).ok_or_else(|| {
            Error::user(format!(
                "there is no coreset `{word}`; choose one of {}",
                Coreset::WORDS.join(", ")
            ))
        })
    }
}

impl fmt::Display for Coreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = METHODS.iter().find(|(own, _)| own == self);
        f.write_str(found.map_or("", |(_, word)| word))
    }
}

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
    let by_class = source.by_class();
    if per_class == 0 {
        return Err(Error::user("0 images of a class teach nothing; ask for at least 1"));
    }
    check_classes(&by_class, per_class)?;
    if method == Coreset::Random {
        let mut random = SplitMix64::named(settings.seed, "coreset");
        let of_class = |class: &Vec<usize>| drawn(class, per_class, &mut random).collect::<Vec<_>>();
        return Ok(by_class.iter().flat_map(of_class).collect());
    }
    let mut learner = Learner::new(device, network, (source.shape(), source.classes()), settings.clone())?;
    learner.restart(seed_of(settings.seed, 0))?;
    let choose: fn(&[f32], usize, usize) -> Vec<usize> = match method {
        Coreset::Forgetting => return most_forgotten(&mut learner, source, per_class, progress),
        Coreset::KCenter => k_center,
        Coreset::Herding | Coreset::Random => herding,
    };
    learner.check_features()?;
    train(&mut learner, source, progress)?;
    let mut chosen = Vec::with_capacity(per_class * by_class.len());
    for class in &by_class {
        let features = learner.features(source, class)?;
        let width = features.len() / class.len();
        chosen.extend(
            choose(&features, width, per_class)
                .into_iter()
                .map(|place| class[place]),
        );
    }
    Ok(chosen)
}

/// The most forgotten images of each class.
fn most_forgotten(
    learner: &mut Learner<'_>,
    source: &dyn ImageSource,
    per_class: usize,
    progress: &mut dyn FnMut(usize, f64) -> Result<()>,
) -> Result<Vec<usize>> {
    let labels = source.labels();
    let mut history = Forgetting::new(labels.len());
    let mut shown = 0;
    learner.train(source, &mut |batch| {
        for (&image, &class) in batch.images.iter().zip(batch.predicted) {
            history.present(image, class == labels[image]);
        }
        shown += batch.images.len();
        if shown < labels.len() {
            return Ok(());
        }
        shown = 0;
        progress(batch.epoch, batch.loss)
    })?;
    let by_class = source.by_class();
    let of_class = |class: &Vec<usize>| history.most_forgotten(class, per_class);
    Ok(by_class.iter().flat_map(of_class).collect())
}
