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
//!
//! ```
//! use lessen_condense::{Condensation, Condenser, FunctionNetwork, ImageSource, LabelledImages, Method, Settings};
//! use lessen_cpu::CpuBackend;
//! use lessen_nn::Init;
//! use lessen_nn::layers::linear;
//!
//! // Four images of 2 x 2 pixels and one channel: dark ones are class 0, bright ones class 1.
//! let pixels = [-1.0, -0.8, 0.8, 1.0].iter().flat_map(|&shade| [shade; 4]).collect();
//! let real = LabelledImages::new([2, 2, 1], 2, pixels, vec![0, 0, 1, 1])?;
//! let network = FunctionNetwork(|cx, images| {
//!     let count = images.shape()[0];
//!     linear(cx, "classes", images.reshape(&[count, 4]), 2, Init::Normal { std: 0.5 })
//! });
//! let settings = Settings { iterations: 1, real_batch: 2, ..Settings::published(Method::Md, 1)? };
//! let mut condenser = Condenser::new(Box::new(CpuBackend::new(1)?), &network, &real, settings)?;
//! condenser.iterate(&mut |_| Ok(()))?;
//! assert_eq!(condenser.images()?.labels(), [0, 1]);
//! # Ok::<(), lessen_base::Error>(())
//! ```
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
