//! A task: goal, data and model of a recipe, assembled and checked by one function for planning, training, resuming and
//! evaluating: [`CheckedTask::assemble`].

pub(crate) mod batch_shape;
pub(crate) mod class_names;
pub mod evaluation;
pub(crate) mod fine_tuning;
pub(crate) mod first_weights;
pub(crate) mod fit;
pub(crate) mod init_sizes;
pub(crate) mod model;
pub mod reader;
pub(crate) mod recording;
mod saved_model;
mod shapes;
pub(crate) mod shared_data;
mod task_data;

pub use self::fit::CheckedTask;
pub use self::saved_model::SavedModel;
pub use self::shapes::Shapes;
pub use self::task_data::TaskData;
