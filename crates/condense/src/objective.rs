//! What a condensation matches.

use crate::coreset_method::Coreset;
use lessen_base::{Error, Result};

/// What the synthetic images are to share with the real ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// The gradients of a network that is trained on the synthetic images (algorithm 1).
    Gradients,
    /// The mean features of each class in networks that are not trained (Zhao and Bilen 2023, "Dataset Condensation
    /// with Distribution Matching").
    Distribution,
    /// The way of a network through some epochs of a training on the real images (Cazenavette et al. 2022, "Dataset
    /// Distillation by Matching Training Trajectories").
    Trajectories(Trajectories),
    /// Nothing: real images are chosen.
    Coreset(Coreset),
}

impl Objective {
    /// Its name in sentences.
    pub fn name(&self) -> &'static str {
        match self {
            Objective::Gradients => "gradient matching",
            Objective::Distribution => "distribution matching",
            Objective::Trajectories(_) => "trajectory matching",
            Objective::Coreset(_) => "the choice of a coreset",
        }
    }
}

/// Settings of trajectory matching. Experts are networks that are trained on the real images by SGD, with the learning
/// rate, the momentum and the batch of the network, and with the siamese augmentation, each image in its own way. A
/// student begins with the parameters of an expert after `t` epochs, and is trained on the synthetic images; it is to
/// come near the expert after `t + target_epochs` epochs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trajectories {
    /// Number of experts; the paper has 100.
    pub experts: usize,
    /// Epochs of an expert; the paper has 50.
    pub expert_epochs: usize,
    /// Epochs after which students begin are below this number, `T+` of the paper.
    pub start_epochs: usize,
    /// Epochs of the expert from the beginning of the student to its target, `M` of the paper.
    pub target_epochs: usize,
    /// Steps of a student, `N` of the paper.
    pub steps: usize,
    /// Synthetic images in a step of a student; all of them if `None`.
    pub batch: Option<usize>,
    /// Learning rate of students at first. It is learned with the images.
    pub student_rate: f64,
    /// Learning rate of the students' learning rate.
    pub student_rate_rate: f64,
}

impl Default for Trajectories {
    /// The defaults of the published program, with fewer and shorter experts: 5 of 10 epochs, students that begin in
    /// the first 8 of these, in place of 100 of 50 epochs and the first 25.
    fn default() -> Trajectories {
        Trajectories {
            experts: 5,
            expert_epochs: 10,
            start_epochs: 8,
            target_epochs: 3,
            steps: 20,
            batch: None,
            student_rate: 0.01,
            student_rate_rate: 1e-5,
        }
    }
}

impl Trajectories {
    /// Checks all numbers.
    ///
    /// # Errors
    /// A number out of range, with its name.
    pub fn check(&self) -> Result<()> {
        let counts = [
            ("experts", self.experts),
            ("expert_epochs", self.expert_epochs),
            ("start_epochs", self.start_epochs),
            ("target_epochs", self.target_epochs),
            ("steps", self.steps),
            ("batch", self.batch.unwrap_or(1)),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(Error::user(format!("{name} = 0 makes no sense; choose at least 1")));
        }
        let last = self.start_epochs.saturating_sub(1).saturating_add(self.target_epochs);
        if last > self.expert_epochs {
            return Err(Error::user(format!(
                "start_epochs = {} and target_epochs = {} ask for experts of {last} epochs, and expert_epochs = {}; train \
                 them longer, or choose less",
                self.start_epochs, self.target_epochs, self.expert_epochs
            )));
        }
        let rates = [
            ("student_rate", self.student_rate),
            ("student_rate_rate", self.student_rate_rate),
        ];
        match rates.into_iter().find(|(_, rate)| !(rate.is_finite() && *rate >= 0.0)) {
            Some((name, rate)) => Err(Error::user(format!(
                "{name} = {rate} makes no sense; choose a finite number from 0"
            ))),
            None => Ok(()),
        }
    }
}
