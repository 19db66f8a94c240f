//! How is a dataset condensed? A few synthetic images of each class that teach a network nearly as well as all real
//! ones (Jiang 2023, "Efficient Machine Learning Software Stack from Algorithms to Compilation", section 2.1; Zhao,
//! Mopuri and Bilen 2021, "Dataset Condensation with Gradient Matching").
//!
//! [`Condenser`] makes them, on a user's own [`ImageSource`] and [`Network`]: each update of the images is one compiled
//! graph with the gradients of real and synthetic images, their [`Distance`], its derivative and the update.
//! [`condensation`] makes what the settings ask for, and every [`Condensation`] is driven alike.
//! [`Settings::published`] has the paper's settings by [`Method`].
//!
//! [`evaluate`] says how good sets of images are, synthetic or real: networks are trained on them from scratch, each a
//! [`Learner`], and tested on others. [`coreset`](coreset()) chooses real images in place of synthetic ones, and
//! [`experiments`] compares networks and memories by condensed sets.
#![forbid(unsafe_code)]

mod augmentation;
mod chosen;
mod condensation;
mod condenser;
mod condenser_functions;
mod coreset;
mod coreset_choice;
mod coreset_method;
mod distance;
mod distribution;
mod divergence;
mod evaluation;
pub mod experiments;
mod experts;
mod forgetting;
mod functions;
mod herding;
mod k_center;
mod learner;
mod learner_graph;
mod matching;
mod network;
mod network_update;
mod objective;
mod real_gradients;
mod rows;
mod schedule;
mod second_derivative;
mod settings;
mod sgd;
mod siamese;
mod siamese_graph;
mod siamese_host;
mod student;
mod synthetic;
mod synthetic_set;
mod training;
mod trajectories;

pub use augmentation::Augmentation;
pub use chosen::condensation;
pub use condensation::{Condensation, ImageUpdate, Preparation};
pub use condenser::Condenser;
pub use coreset::coreset;
pub use coreset_choice::CoresetChoice;
pub use coreset_method::Coreset;
pub use distance::Distance;
pub use distribution::DistributionMatcher;
pub use divergence::Divergence;
pub use evaluation::{Accuracy, Evaluated, evaluate, evaluate_by, evaluate_each};
pub use forgetting::Forgetting;
pub use herding::herding;
pub use k_center::k_center;
pub use learner::{Learner, Presented};
pub use lessen_data::images::{ImageSource, LabelledImages};
pub use network::{FunctionNetwork, Network, Outputs, parameters};
pub use objective::{Objective, Trajectories};
pub use schedule::{InnerEpochs, published};
pub use settings::{Level, Method, Settings, Start};
pub use siamese::{Change, Operation, Strategy};
pub use siamese_graph::{ChangeArrays, Changes};
pub use synthetic_set::{IMAGES, LABELS, STUDENT_RATE};
pub use training::TrainingSettings;
pub use trajectories::TrajectoryMatcher;
