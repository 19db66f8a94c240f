//! Tasks: what is learned, from what, by which model.
//!
//! ```text
//! recipe ──▶ Settings ──▶ Config ──▶ task (goal, data, model)
//! folder ──▶ Settings ──┘
//! ```
//!
//! - [`recipe`] reads the settings of a run from built-in recipes, files and flags; its keys are one table.
//! - [`formats`] has the formats of data, [`models`] the families of models, and [`goal`] the goals of a task.
//! - [`CheckedTask::assemble`] assembles goal, data and model for planning, training, resuming and evaluating, and
//!   checks that they are in [`agreement`].
//! - [`folder`] is the folder of a run; [`input_files`] tells whether the files that it names are still the same.
//! - [`generation_config`] reads how a model's folder wants texts to be generated.
//!
//! Every mistake of a user is an [`Error::User`](lessen_base::Error::User) of one sentence that names the setting or
//! file, the place and the remedy.
//!
//! ```
//! use lessen_task::CheckedTask;
//! use lessen_task::recipe;
//! use lessen_task::recipe::config::Config;
//!
//! let mut settings = recipe::load("adder")?;
//! settings.set_flag("model.width=32")?;
//! let task = CheckedTask::assemble(Config::new(settings)?, None)?;
//! assert!(task.parameters().iter().any(|param| param.shape.contains(&32)));
//!
//! let sentence = recipe::load("adder")?.set_flag("model.widht=32").unwrap_err().to_string();
//! assert!(sentence.contains("model.width"), "{sentence}");
//! # Ok::<(), lessen_base::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod agreement;
pub mod batch_shape;
mod checked_config;
pub mod class_names;
pub mod device;
pub mod evaluation;
pub mod fine_tuning;
pub mod first_weights;
pub mod folder;
pub mod formats;
pub mod generation_config;
pub mod goal;
pub mod init_sizes;
pub mod input_files;
pub mod models;
pub mod reader;
pub mod recipe;
pub mod recipe_model;
pub mod recording;
mod saved_model;
mod shapes;
pub mod shared_data;
pub mod sources;
mod task_data;
pub mod wording;

pub use self::agreement::CheckedTask;
pub use self::saved_model::SavedModel;
pub use self::shapes::Shapes;
pub use self::task_data::TaskData;
