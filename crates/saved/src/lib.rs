//! What saved models answer.
//!
//! - [`saved_run`] evaluates a run or a Hugging Face folder, also at other [`lengths`], and asks it for predictions;
//!   [`op_sample`] takes an operation out of it; [`export`] writes its model in another dtype, [`onnx_export`] as an
//!   ONNX file, [`quantization`] with integer weights, and [`norm_conversion`] with other norms.
//! - [`chat`] makes prompts of messages by the chat template of a model; [`continuation`] continues texts.
//! - [`text_model`] is what servers ask: a predictor or an embedder of the texts of many askers together.
//! - [`embedding`] makes vectors of texts with the model of a run, a Hugging Face folder or a folder of
//!   sentence-transformers.
//! - [`calibration`] observes the values inside a model.
//!
//! The device comes from the caller.
//!
//! ```no_run
//! use lessen_cpu::CpuBackend;
//! use lessen_saved::saved_run::{AdapterOptions, SavedRun};
//! use lessen_task::device::NewBackend;
//! use lessen_task::folder::WhichModel;
//! use std::path::Path;
//!
//! let device = NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)));
//! let run = SavedRun::open(Path::new("runs/sst2"), WhichModel::Last, AdapterOptions::default(), &device)?;
//! println!("{:?}", run.predict("a fine film")?);
//! # Ok::<(), lessen_base::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod calibration;
pub mod chat;
pub mod continuation;
pub mod cut_texts;
pub mod embedding;
pub mod export;
pub mod lengths;
mod locked;
pub mod logits_graph;
pub mod norm_conversion;
pub mod onnx_export;
pub mod op_sample;
pub mod quantization;
pub mod saved_run;
pub mod text_model;
