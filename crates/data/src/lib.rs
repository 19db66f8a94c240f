//! Datasets, tokenizers and batches. This crate turns files into batches; it knows nothing of models.
//!
//! ```text
//! labelled, glue ──▶ Dataset ──Tokenizer──▶ ExampleBatches ┐
//! text           ──▶ Text    ──Tokenizer──▶ WindowBatches  ├─ Source ──▶ Prefetch ──▶ Batch, Batch
//!                                           MaskedBatches  │
//! tagged         ──▶ Tagged  ──Tokenizer──▶ TaggedBatches  │
//! squad          ──▶ Squad   ──Tokenizer──▶ QuestionBatches│
//! adder                                     Adder          │
//! images                                    ImageBatches   │
//! table                                     TableBatches   │
//! own arrays                                ArrayBatches   ┘
//! ```
//!
//! - [`Dataset`] holds the texts and labels of `text<TAB>label` folders ([`labelled`]) or GLUE tasks ([`glue`]).
//! - [`Tokenizer`] reads Hugging Face files or builds a vocabulary of characters.
//! - [`Source`] gives the batch of any step as a pure function of the seed and the step number, so that a run resumes
//!   exactly from the number of its next step.
//! - [`images`] reads labelled images and augments them.
//! - [`table`] reads tables of numbers and categories.
//! - [`look`] says what data is before anything is chosen for it.
//! - [`memory`] has data that a program gives in place of files.
//! - [`arrays`] reads and writes NumPy's files.
//! - [`Prefetch`] makes batches ahead on a thread.
//! - [`Metric`] scores predictions, and [`Confusion`] and [`LabelCounts`] each class; [`scores`] has metrics of logits
//!   and probabilities. [`Answers`] finds answers to questions, and [`AnswerScores`] scores them.
//!
//! A mistake in the input (a missing file, a line without a tab, a label out of range) is an [`Error`] that names the
//! file, the line and the remedy.
//!
//! ```
//! use lessen_data::{Order, Source, Tokenizer, WindowBatches};
//!
//! let text = "to be or not to be";
//! let tokenizer = Tokenizer::characters([text], 1);
//! let tokens = tokenizer.encode(text)?;
//! let source = WindowBatches::new(tokens, tokenizer.pad_id(), 5, 2, Order::Shuffled(1))?;
//!
//! // Two windows of five tokens; each label is the token that follows.
//! let batch = source.batch(0)?;
//! let (tokens, labels) = (batch.get("tokens").unwrap(), batch.get("labels").unwrap());
//! assert_eq!(tokens.shape(), [2, 5]);
//! assert_eq!(tokens.as_i32().unwrap()[1], labels.as_i32().unwrap()[0]);
//! # Ok::<(), lessen_data::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod adder;
mod answer_scores;
mod answers;
mod array_batches;
pub mod arrays;
mod balance;
mod batch;
mod batching;
mod cache;
mod cell_row;
mod cell_values;
mod chunks;
mod class_names;
mod classes;
mod columns;
mod confusion;
mod csv_rows;
mod documents;
mod encoded;
mod encoded_rows;
mod encoded_text;
mod entities;
mod epoch;
mod eval_layouts;
mod exactly;
mod example_batches;
mod examples;
mod files;
mod folders;
pub mod glue;
mod glue_task;
mod held_out;
mod held_out_by;
pub mod images;
mod json_object;
mod label_counts;
mod label_sets;
pub mod labelled;
mod labels;
mod lines;
pub mod look;
mod masked_batches;
pub mod memory;
mod metrics;
mod packed_texts;
mod packing;
mod parallel;
mod parquet_rows;
mod places;
mod prefetch;
mod question_batches;
mod question_rows;
mod questions;
mod raw_label;
mod record;
mod row;
mod rows;
pub mod scores;
mod sentences;
mod source;
mod splits;
pub mod squad;
pub mod table;
mod table_in_memory;
pub mod tagged;
mod tagged_batches;
mod text;
mod tokenizer;
mod tokens;
mod unlabelled;
mod vocabulary;
mod window_batches;
mod written_sentences;

pub use adder::Adder;
pub use answer_scores::{AnswerScores, normalized};
pub use answers::{Answers, FoundAnswer};
pub use array_batches::ArrayBatches;
pub use batch::{Batch, Field, IGNORE};
pub use batching::Batching;
pub use cache::TokenCache;
pub use confusion::{ClassScores, Confusion};
pub use documents::Documents;
pub use encoded::EncodedExamples;
pub use encoded_text::{document_start, encode_text, end_of_text};
pub use entities::{EntityCounts, EntitySpan, are_entities, entity_spans};
pub use epoch::Order;
pub use example_batches::ExampleBatches;
pub use examples::{Dataset, Examples, TextPair};
pub use glue::GlueTask;
pub use held_out_by::HeldOutBy;
pub use label_counts::LabelCounts;
pub use label_sets::LabelSets;
pub use labels::{LabelKind, Labels, Problem, class_counts};
pub use lessen_base::{Error, Result, bucket};
pub use masked_batches::{MaskedBatches, Masking, masked_places};
pub use metrics::{Metric, exact_rows};
pub use packing::{EncodedText, packed_batch};
pub use places::is_pattern;
pub use prefetch::Prefetch;
pub use question_batches::{Asking, QuestionBatches};
pub use questions::{GivenAnswer, Question, Questions};
pub use source::Source;
pub use squad::Squad;
pub use tagged::Tagged;
pub use tagged_batches::TaggedBatches;
pub use text::{Text, TextOptions, TextSplit};
pub use tokenizer::{StopStrings, TextStream, Tokenizer};
pub use tokens::Tokens;
pub use window_batches::WindowBatches;
