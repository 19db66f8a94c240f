//! Jobs: long computations, each with a folder of its own from which it resumes to the same bytes.
//! [`training`](crate::training), [`condensing`](crate::condensing) and [`searching`](crate::searching) are jobs; here
//! is what they share, and the driver that goes through them.

mod checkpoint;
mod clock;
mod driver;
mod folder;
mod log;
mod manifest;
pub mod processes;
mod recipe_images;
mod request;
mod start;
mod training_images;

pub(crate) use self::checkpoint::Checkpoint;
use self::clock::CheckpointClock;
pub(crate) use self::driver::{Begin, Driver, Job, Unit, Unsaved};
pub use self::folder::JobFolder;
pub(crate) use self::log::Log;
pub use self::manifest::Manifest;
pub use self::recipe_images::{PreparedSource, RecipeImages};
pub use self::request::{Feed, Request, Wish};
pub(crate) use self::start::Start;
pub(crate) use self::training_images::reading_the_same;
use self::training_images::{check_images, noted};
pub use crate::job_kind::{CONDENSATION, JobKind, SEARCH};

/// Minutes between checkpoints where a recipe says nothing of them.
pub(crate) const CHECKPOINT_MINUTES: f64 = 5.0;
