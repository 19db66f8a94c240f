//! Where do batches come from?
//!
//! This crate turns files into batches of fixed shape and knows nothing of models.
//!
//! ```text
//! labelled, glue ──▶ Dataset ──Tokenizer──▶ ExampleBatches ┐
//! text           ──▶ Text    ──Tokenizer──▶ WindowBatches  ├─ Source ──▶ Prefetch ──▶ Batch, Batch
//! adder                                     Adder          ┘
//! ```
//!
//! - [`Dataset`] holds the texts and labels of `title<TAB>label` folders ([`labelled`]) or GLUE tasks
//!   ([`glue`]).
//! - [`Tokenizer`] reads Hugging Face files, or makes a vocabulary of characters.
//! - A [`Source`] gives the batch of any step as a pure function of the seed and the step's number, so that a
//!   run resumes exactly from nothing but the number of the next step.
//! - [`Prefetch`] makes batches ahead on a thread.
//! - [`Metric`] scores predictions.
//!
//! Every mistake of a user (a missing file, a line without tab, a label out of range) is an [`Error`] whose
//! message is one sentence that names the file, the line and the remedy.
#![forbid(unsafe_code)]

pub mod adder;
mod batch;
mod epoch;

mod example_batches;
mod examples;
mod files;
pub mod glue;
pub mod labelled;
mod metrics;
mod prefetch;
mod source;
mod text;
mod tokenizer;
mod vocabulary;
mod window_batches;

pub use adder::Adder;
pub use batch::{Batch, Field, IGNORE};
pub use epoch::Order;
pub use example_batches::ExampleBatches;
pub use examples::{Dataset, Examples, Labels, Target};
pub use glue::GlueTask;
pub use lessen_base::{Error, Result};
pub use metrics::{Metric, exact_rows};
pub use prefetch::Prefetch;
pub use source::Source;
pub use text::Text;
pub use tokenizer::Tokenizer;
pub use window_batches::WindowBatches;
