//! How is a dataset condensed? A few synthetic images of each class that teach a network nearly as well as all real
//! ones (Jiang 2023, "Efficient Machine Learning Software Stack from Algorithms to Compilation", section 2.1; Zhao,
//! Mopuri and Bilen 2021, "Dataset Condensation with Gradient Matching").
//!
//! [`Condenser`] makes them, on a user's own [`ImageSource`] and [`Network`]: each update of the images is one compiled
//! graph with the gradients of real and synthetic images, their [`Distance`], its derivative and the update.
//! [`Settings::published`] has the paper's settings by [`Method`].
#![forbid(unsafe_code)]

mod condenser;
mod distance;
mod images;
mod matching;
mod network;
mod network_update;
mod schedule;
mod settings;

pub use condenser::{Condenser, ImageUpdate};
pub use distance::Distance;
pub use images::{ImageSource, LabelledImages};
pub use matching::IMAGES;
pub use network::{FunctionNetwork, Network, Outputs, parameters};
pub use schedule::{InnerEpochs, published};
pub use settings::{Level, Method, Settings, Start};
