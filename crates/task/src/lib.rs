//! Tasks: what is learned, from what, by which model.
//!
//! ```text
//! recipe ──▶ Settings ──▶ Config ──▶ task (goal, data, model)
//! folder ──▶ Settings ──┘
//! ```
//!
//! - [`recipe`] reads the settings of a run from built-in recipes, files and flags; its keys are one table.
//! - [`formats`] has the formats of data, [`models`] the families of models, and [`goal`] the goals of a task.
//! - [`task`] assembles goal, data and model, and checks that they go together.
//! - [`folder`] is the folder of a run; [`input_files`] tells whether the files that it names are still the same.
//! - [`generation_config`] reads how a model's folder wants texts to be generated.
//!
//! Every mistake of a user is an [`Error::User`](lessen_base::Error::User) of one sentence that names the setting or
//! file, the place and the remedy.
#![forbid(unsafe_code)]

pub mod device;
pub mod folder;
pub mod formats;
pub mod generation_config;
pub mod goal;
pub mod input_files;
pub mod models;
pub mod recipe;
pub mod task;
pub mod wording;
