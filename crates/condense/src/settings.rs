//! What a condensation is made of: levels, distance, schedule, rates; and the paper's settings by name.

use crate::coreset_method::Coreset;
use crate::distance::Distance;
use crate::objective::{Objective, Trajectories};
use crate::schedule::{FIRST, InnerEpochs, UNTIL_OVERFIT, published};
use crate::siamese::Strategy;
use lessen_base::{Error, Result};
use lessen_compile::Precision;

/// The gradients that are matched (section 2.1.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Of each class (equation 2.4).
    Intra,
    /// Of all classes together.
    Inter,
    /// Of each class in one update of the images, of all classes in the next.
    Interleaved,
    /// Both in each update (equation 2.6).
    Multi,
}

lessen_base::words!(Level, "level of gradients" {
    Intra = "intra",
    Inter = "inter",
    Interleaved = "interleaved",
    Multi = "multi",
});

/// The settings of table 2.3, and those of methods beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Gradients of each class, their angle, a fixed schedule (Zhao, Mopuri and Bilen 2021).
    Baseline,
    /// Multi-level matching.
    M,
    /// Multi-level matching, angle and magnitude.
    Md,
    /// As [`Method::Md`], the network updated until it overfits.
    Mdo,
    /// As [`Method::Md`], with the adaptive schedule.
    Mda,
    /// As [`Method::Baseline`], with siamese augmentation, from real images, and without momentum of the network (Zhao
    /// and Bilen 2021).
    Dsa,
    /// Distribution matching with siamese augmentation, from real images (Zhao and Bilen 2023).
    Dm,
    /// Trajectory matching with siamese augmentation, from real images (Cazenavette et al. 2022), with the experts of
    /// [`Trajectories::default`].
    Mtt,
    /// Real images; where a network is trained on all images first, for 5 epochs.
    Coreset(Coreset),
}

lessen_base::words!(Method, "method of condensation" {
    Baseline = "baseline",
    M = "m",
    Md = "md",
    Mdo = "mdo",
    Mda = "mda",
    Dsa = "dsa",
    Dm = "dm",
    Mtt = "mtt",
    Coreset(Coreset::Random) = "random",
    Coreset(Coreset::Herding) = "herding",
    Coreset(Coreset::KCenter) = "k-center",
    Coreset(Coreset::Forgetting) = "forgetting",
});

/// What the synthetic images are at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Standard normal numbers.
    Noise,
    /// Real images of the class, drawn at random.
    Real,
}

lessen_base::words!(Start, "start of the images" {
    Noise = "noise",
    Real = "real",
});

/// Settings of a condensation.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What is matched.
    pub objective: Objective,
    /// Synthetic images of a class.
    pub per_class: usize,
    /// Outer iterations, `K`, each with a new network.
    pub iterations: usize,
    /// Updates of the images in an outer iteration, `T`.
    pub updates: usize,
    /// Epochs of the network between them, `zeta`; of a coreset, epochs of the network over all images.
    pub epochs: InnerEpochs,
    /// Gradients that are matched, in gradient matching.
    pub level: Level,
    /// Weight of the gradients of all classes together, `lambda` of equation 2.6; the number of classes if `None`.
    pub lambda: Option<f64>,
    /// Distance of gradients, in gradient matching.
    pub distance: Distance,
    /// Learning rate of the images.
    pub image_rate: f64,
    /// Momentum of the images' updates.
    pub image_momentum: f64,
    /// Learning rate of the network, and of experts.
    pub network_rate: f64,
    /// Momentum of the network's updates. It was 0.5 in the published code until July 2021, which the dissertation's
    /// code began from, and 0 since.
    pub network_momentum: f64,
    /// Real images of a class in an update of the images.
    pub real_batch: usize,
    /// Synthetic images in a step of the network; real images in a step of an expert, or of a coreset's network.
    pub network_batch: usize,
    /// What the images are at first.
    pub start: Start,
    /// Siamese augmentation of real and synthetic images, in updates of the images and of the network; none in the
    /// paper.
    pub augment: Option<Strategy>,
    /// Learning rate of soft labels, the probabilities of all classes that are learned with the images; labels stay
    /// what they are if `None`, as in the paper.
    pub soft_labels: Option<f64>,
    /// Seed of the images, the networks and all batches.
    pub seed: u64,
    /// Dtype that products and convolutions read.
    pub precision: Precision,
    /// Most bytes of all states, constants and results and of the arena.
    pub budget: Option<usize>,
    /// Whether plans are those with the least memory, whatever time they take; there is no budget then.
    pub tightest: bool,
}

impl Settings {
    /// The settings of the paper for a method and a number of images of a class, with the published number of outer
    /// iterations.
    ///
    /// # Errors
    /// No image.
    pub fn published(method: Method, per_class: usize) -> Result<Settings> {
        let (updates, epochs) = published(per_class)?;
        let baseline = Settings {
            objective: Objective::Gradients,
            per_class,
            iterations: 1000,
            updates,
            epochs: InnerEpochs::Fixed(epochs),
            level: Level::Intra,
            lambda: None,
            distance: Distance::COSINE,
            image_rate: 0.1,
            image_momentum: 0.5,
            network_rate: 0.01,
            network_momentum: 0.5,
            real_batch: 256,
            network_batch: 256,
            start: Start::Noise,
            augment: None,
            soft_labels: None,
            seed: 1,
            precision: Precision::F32,
            budget: None,
            tightest: false,
        };
        Ok(match method {
            Method::Baseline => baseline,
            Method::M => Settings {
                level: Level::Multi,
                ..baseline
            },
            Method::Md | Method::Mdo | Method::Mda => Settings {
                level: Level::Multi,
                distance: Distance::ANGLE_AND_MAGNITUDE,
                epochs: match method {
                    Method::Mdo => InnerEpochs::UntilOverfit(UNTIL_OVERFIT),
                    Method::Mda => InnerEpochs::Adaptive(FIRST),
                    _ => baseline.epochs,
                },
                ..baseline
            },
            Method::Dsa => Settings {
                network_momentum: 0.0,
                start: Start::Real,
                augment: Some(Strategy::ALL),
                ..baseline
            },
            Method::Dm | Method::Mtt => {
                let is_dm = method == Method::Dm;
                Settings {
                    objective: if is_dm {
                        Objective::Distribution
                    } else {
                        Objective::Trajectories(Trajectories::default())
                    },
                    iterations: if is_dm { 20_000 } else { 5000 },
                    updates: 1,
                    epochs: InnerEpochs::Fixed(0),
                    image_rate: if is_dm { 1.0 } else { 1000.0 },
                    network_momentum: 0.0,
                    start: Start::Real,
                    augment: Some(Strategy::ALL),
                    ..baseline
                }
            }
            Method::Coreset(own) => Settings {
                objective: Objective::Coreset(own),
                iterations: 0,
                updates: 1,
                epochs: InnerEpochs::Fixed(5),
                network_momentum: 0.9,
                start: Start::Real,
                ..baseline
            },
        })
    }

    /// Checks all numbers.
    ///
    /// # Errors
    /// A number out of range, with its name.
    pub fn check(&self) -> Result<()> {
        let counts = [
            ("per_class", self.per_class),
            ("updates", self.updates),
            ("real_batch", self.real_batch),
            ("network_batch", self.network_batch),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(Error::user(format!("{name} = 0 makes no sense; choose at least 1")));
        }
        self.check_objective()?;
        let within = |low: f64, high: f64, value: f64| value.is_finite() && value >= low && value < high;
        let numbers = [
            ("lambda", self.lambda.unwrap_or(1.0), f64::INFINITY),
            ("image_rate", self.image_rate, f64::INFINITY),
            ("soft_labels", self.soft_labels.unwrap_or(0.0), f64::INFINITY),
            ("image_momentum", self.image_momentum, 1.0),
            ("network_rate", self.network_rate, f64::INFINITY),
            ("network_momentum", self.network_momentum, 1.0),
        ];
        match numbers.into_iter().find(|&(_, value, high)| !within(0.0, high, value)) {
            Some((name, value, 1.0)) => Err(Error::user(format!(
                "{name} = {value} makes no sense; choose a number from 0 and below 1"
            ))),
            Some((name, value, _)) => Err(Error::user(format!(
                "{name} = {value} makes no sense; choose a finite number from 0"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses settings for another objective.
    pub(crate) fn check_is(&self, objective: Objective) -> Result<()> {
        if self.objective == objective {
            return Ok(());
        }
        Err(self.is_of_another_objective(objective.name()))
    }

    /// The refusal of settings for another objective than the one of this name.
    pub(crate) fn is_of_another_objective(&self, name: &str) -> Error {
        Error::user(format!(
            "the settings ask for {}, and this is {name}; make what they ask for by `condensation`",
            self.objective.name()
        ))
    }

    /// Refuses what has no part in the objective.
    fn check_objective(&self) -> Result<()> {
        if self.objective == Objective::Gradients {
            return Ok(());
        }
        if self.epochs_of_iteration() > 0 {
            return Err(Error::user(format!(
                "{} trains no network between updates of the images; epochs = {} makes no sense, choose 0",
                self.objective.name(),
                self.epochs
            )));
        }
        match self.objective {
            Objective::Trajectories(trajectories) => trajectories.check(),
            Objective::Coreset(_) => self.check_coreset(),
            _ if self.soft_labels.is_some() => Err(Error::user(
                "distribution matching reads no labels; soft labels cannot be learned, leave soft_labels out",
            )),
            _ => Ok(()),
        }
    }

    /// Refuses what has no part in a coreset.
    fn check_coreset(&self) -> Result<()> {
        let given = [
            ("iterations", self.iterations > 0),
            ("augment", self.augment.is_some()),
            ("soft_labels", self.soft_labels.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((name, _)) => Err(Error::user(format!(
                "a coreset is chosen of real images as they are; {name} makes no sense, leave it out"
            ))),
        }
    }

    /// Epochs of the network in a whole outer iteration, at most; none follow the last update of the images.
    pub fn epochs_of_iteration(&self) -> usize {
        (0..self.updates.saturating_sub(1)).map(|t| self.epochs.most(t)).sum()
    }
}
