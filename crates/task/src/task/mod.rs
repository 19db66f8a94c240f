//! A task: goal, data and model of a recipe, assembled and checked by one function for planning, training, resuming and
//! evaluating: [`CheckedTask::assemble`].

pub mod batch_shape;
pub mod class_names;
pub mod evaluation;
pub mod fine_tuning;
pub mod first_weights;
pub mod fit;
pub mod init_sizes;
pub mod model;
pub mod reader;
pub mod recording;
mod saved_model;
mod shapes;
pub mod shared_data;
pub mod sources;
mod task_data;

pub use self::fit::CheckedTask;
pub use self::saved_model::SavedModel;
pub use self::shapes::Shapes;
pub use self::task_data::TaskData;
