//! Runs: recipe, task, training loop, folder, resume and reports.
//!
//! ```text
//! recipe ──▶ Settings ──▶ Config ──▶ task (goal, data, model) ─┬─▶ train: steps, evaluations, checkpoints ──▶ folder
//!                                                              ├─▶ forecast
//! folder ──▶ Settings ──▶ saved run ───────────────────────────┴─▶ evaluation, prediction, generation
//! ```
//!
//! - [`recipe`] reads the settings of a run from built-in recipes, files and flags; its keys are one table.
//! - [`task`] assembles goal, data and model, and checks that they go together.
//! - [`training`] is the loop; it leaves a [`folder`].
//! - [`experiment`] trains the runs of a grid and writes a page with the results.
//! - [`saved_run`] evaluates a run or a Hugging Face folder, also at other [`lengths`], and asks it for predictions;
//!   [`op_sample`] takes an operation out of it; [`export`] writes its model in another dtype,
//!   [`onnx_export`] as an ONNX file.
//! - [`chat`] makes prompts of messages by the chat template of a model.
//! - [`embedding`] makes vectors of texts with the model of a run, a Hugging Face folder or a folder of
//!   sentence-transformers.
//! - [`energy`] models the layers of a model on an accelerator.
//! - [`condensing`] condenses the images of a recipe; [`searching`] searches for architecture and precision on them.
//!   Both are [`jobs`]: their folders, requests and checkpoints are one mechanism.
//! - [`forecast`] tells memory and time of a run beforehand. Training and forecast plan memory in the same module,
//!   `planning`.
//! - [`report`] makes a page of the folders of runs.
//! - [`goal`] has the goals that a run can have; data formats and families of models are in `formats` and `models`.
//!
//! The device comes from the caller. Every mistake of a user is an [`Error::User`] of one sentence that names the
//! setting or file, the place and the remedy.
//!
//! ```
//! use lessen_cpu::CpuBackend;
//! use lessen_run::folder::WhichModel;
//! use lessen_run::recipe;
//! use lessen_run::saved_run::{AdapterOptions, Prediction, SavedRun};
//! use lessen_run::training::{Request, train};
//!
//! # let dir = std::env::temp_dir().join(format!("lessen-doc-{}", std::process::id()));
//! let backend = || Ok(Box::new(CpuBackend::new(1)?) as Box<dyn lessen_device::Backend>);
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
//! # Ok::<(), lessen_run::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod calibration;
pub mod chat;
pub mod choosing;
pub mod condensing;
pub mod console;
pub mod continuation;
pub mod cut_texts;
pub mod device;
pub mod embedding;
pub mod energy;
#[cfg(test)]
mod expected_text;
pub mod experiment;
pub mod export;
pub mod folder;
pub mod forecast;
mod formats;
pub mod generation_config;
pub mod goal;
mod input_files;
pub mod jobs;
pub mod lengths;
mod logits_graph;
mod models;
pub mod norm_conversion;
pub mod onnx_export;
pub mod op_sample;
mod planning;
mod plot;
pub mod quantization;
pub mod recipe;
pub mod report;
pub mod saved_run;
pub mod searching;
pub mod task;
pub mod training;
mod warm_up;
mod wording;

pub use lessen_base::{Error, Result};
