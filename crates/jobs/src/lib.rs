//! Jobs: long computations, each with a folder from which it resumes to the same bytes.
//!
//! - [`training`] is the loop of a run; [`choosing`] chooses what is trained from a look at the data.
//! - [`condensing`] condenses the images of a recipe; [`searching`] searches for architecture and precision on them.
//!   Their folders, requests and checkpoints are those of [`job`].
//! - [`experiment`] does the runs of a grid, trainings, condensations or searches, and writes a page with the results.
//! - [`forecast`] tells memory and time of a run beforehand. Training and forecast plan memory in the same module,
//!   `planning`.
//! - [`energy`] models the layers of a model on an accelerator.
//! - [`report`] makes a page of the folders of runs.
//!
//! The device comes from the caller.
//!
//! ```
//! use lessen_cpu::CpuBackend;
//! use lessen_jobs::training::{Request, train};
//! use lessen_saved::saved_run::{AdapterOptions, Prediction, SavedRun};
//! use lessen_task::device::NewBackend;
//! use lessen_task::folder::WhichModel;
//! use lessen_task::recipe;
//!
//! # let dir = std::env::temp_dir().join(format!("lessen-doc-{}", std::process::id()));
//! let backend = NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)));
//! let mut settings = recipe::load("adder")?;
//! for flag in ["model.layers=1", "model.width=16", "model.ffn=32", "train.batch=8", "train.steps=3"] {
//!     settings.set_flag(flag)?;
//! }
//! let report = train(&Request::new(settings, dir.clone()), &backend)?;
//! assert_eq!(report.steps, 3);
//!
//! let run = SavedRun::open(&dir, WhichModel::Last, AdapterOptions::default(), &backend)?;
//! assert!(matches!(run.predict("123+456")?, Prediction::Sum(_)));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), lessen_base::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod choosing;
pub mod condensing;
pub mod energy;
#[cfg(test)]
mod expected_text;
pub mod experiment;
pub mod forecast;
pub mod job;
mod job_kind;
mod planning;
pub mod report;
mod schema;
pub mod searching;
pub mod training;

pub use self::schema::{SCHEMA, check_trains};
