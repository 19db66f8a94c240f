//! How is a dataset condensed? A few synthetic images of each class that teach a network nearly as well as all real
//! ones (Jiang 2023, "Efficient Machine Learning Software Stack from Algorithms to Compilation", section 2.1; Zhao,
//! Mopuri and Bilen 2021, "Dataset Condensation with Gradient Matching").
//!
//! [`Condenser`] makes them, on a user's own [`ImageSource`] and [`Network`]: each update of the images is one compiled
//! graph with the gradients of real and synthetic images, their [`Distance`], its derivative and the update.
//! [`condensation`] makes what the settings ask for, and every [`Condensation`] is driven alike. [`Settings::published`]
//! has the paper's settings by [`Method`].
#![forbid(unsafe_code)]

mod augmentation;
mod condensation;
mod condenser;
mod distance;
mod evaluation;
mod images;
mod learner;
mod learner_graph;
mod matching;
mod network;
mod network_update;
mod schedule;
mod settings;
mod sgd;
mod synthetic;
mod training;

pub use augmentation::Augmentation;
pub use condensation::{Condensation, ImageUpdate, Preparation, condensation};
pub use condenser::Condenser;
pub use distance::Distance;
pub use evaluation::{Accuracy, Evaluated, evaluate};
pub use images::{ImageSource, LabelledImages};
pub use learner::{Learner, Presented};
pub use matching::IMAGES;
pub use network::{FunctionNetwork, Network, Outputs, parameters};
pub use schedule::{InnerEpochs, published};
pub use settings::{Level, Method, Settings, Start};
pub use training::TrainingSettings;
