//! What is a run? Recipes, the loop, metrics, checkpoints, resume and reports.
//!
//! ```text
//! recipe ──▶ Settings ──▶ Config ─┬─▶ Corpus ──▶ batches ─┐
//!                                 └─▶ Model ──▶ Trainer ──┴─▶ run: steps, evaluation, checkpoints, report
//! ```
//!
//! - [`Trainer`] trains any function from a context to a loss, step by step; [`Inference`] runs functions over
//!   parameters that stay as they are. Both are for models of one's own.
//! - [`recipe`], [`settings`] and [`config`] read what a run is to be; [`run::train`] does it and leaves a
//!   [`folder`]; [`Finished`] evaluates it, asks it and continues texts with it.
//! - [`Outlook`] says beforehand what a run would take.
//!
//! Every mistake of a user is an [`Error::User`] of one sentence that names the thing, the place and the remedy.
#![forbid(unsafe_code)]

mod checkpoints;
pub mod config;
mod config_file;
mod corpus;
mod course;
mod crc;

mod evaluate;
pub mod events;
mod finished;
pub mod folder;
mod generate;
mod inference;
pub mod interrupt;
pub mod keys;
pub mod memory;
pub mod metrics;
mod model;
mod outlook;
mod plans;
mod prepared;
mod progress;
pub mod recipe;
mod report;
mod resume;
pub mod run;
pub mod run_names;
mod saved;
pub mod settings;
mod showcase;
mod size;
mod trainer;
mod value;

pub use corpus::Goal;
pub use evaluate::{Scores, inputs_of};
pub use finished::{Finished, Prediction, device};
pub use generate::{Generator, Sampling};
pub use inference::{Function, Inference, Inputs, Runs};
pub use lessen_base::{Error, Result};
pub use outlook::Outlook;
pub use plans::{StepGraphs, StepPlans, TrainerOptions};
pub use prepared::recipe_model;
pub use progress::show_duration;
pub use report::Report;
pub use saved::{Best, Manifest, StateArray};
pub use size::{parse_size, show_size};
pub use trainer::{Peak, StepReport, Trainer};
