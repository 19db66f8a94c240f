//! Lessen trains and runs neural networks with less memory, less time and the same answer.
//!
//! A model is an ordinary function from a [`Cx`](prelude::Cx) to tensors. Lessen traces it into one graph
//! that holds forward pass, backward pass and update together, plans the memory of the whole step before the first
//! one runs, and runs it.
//!
//! ```
//! use lessen::prelude::*;
//!
//! // y = a x + b, learnt from four points of y = 2 x - 1.
//! fn line(cx: Cx) -> Tensor {
//!     let x = cx.input("x", DType::F32, &[4]);
//!     cx.param("a", &[1], Init::Zeros) * x + cx.param("b", &[1], Init::Zeros)
//! }
//!
//! let mut trainer = Trainer::new(device()?, TrainerOptions::new(0.1), |cx| {
//!     losses::mse(line(cx), cx.input("y", DType::F32, &[4]))
//! })?;
//! let (x, y) = ([0.0f32, 1.0, 2.0, 3.0], [-1.0f32, 1.0, 3.0, 5.0]);
//! for _ in 0..300 {
//!     trainer.step(&[("x", (&x).into()), ("y", (&y).into())])?;
//! }
//! let weights = trainer.weights()?;
//! assert!((weights["a"].data[0] - 2.0).abs() < 0.01 && (weights["b"].data[0] + 1.0).abs() < 0.01);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Where to go from here
//!
//! A model of one's own is trained by a [`Trainer`](prelude::Trainer) and asked by a [`Session`](prelude::Session):
//!
//! | what | how | example |
//! |---|---|---|
//! | a model function | [`Cx`](prelude::Cx), layers such as [`linear`](prelude::linear) | `spiral` |
//! | a loss | [`losses`](prelude::losses), [`Tensor::cross_entropy`](prelude::Tensor::cross_entropy) | `spiral` |
//! | a training loop | [`Trainer::step`](prelude::Trainer::step) | `mnist` |
//! | several losses | [`Trainer::add_named_step`](prelude::Trainer::add_named_step) | `gan` |
//! | an optimizer of one's own | [`UpdateAlgorithm`](prelude::UpdateAlgorithm) | `own_optimizer` |
//! | batches, shuffled | [`ArrayBatches`](prelude::ArrayBatches), [`Prefetch`](prelude::Prefetch) | `batches` |
//! | an evaluation | [`Trainer::function`](prelude::Trainer::function), [`data::scores`] | `mnist` |
//! | a loop with callbacks | [`train::fit`] | |
//! | saving | [`Trainer::save_checkpoint`](prelude::Trainer::save_checkpoint) | `resume` |
//! | going on | [`Trainer::resume_checkpoint`](prelude::Trainer::resume_checkpoint) | `resume` |
//! | asking elsewhere | [`Session::open`](prelude::Session::open) | `mnist_predict` |
//! | a model of Hugging Face | [`Model::from_dir`](prelude::Model::from_dir) | `finetune_bert` |
//! | texts by their meaning | [`Embedder`](saved::embedding::Embedder) | `search` |
//! | a server of a model | `lessen serve` | `ask_server` |
//! | condensed images | [`condensation`](condense::condensation) | `condense_pseudo_labels` |
//! | condensed texts | [`ImageSource`](condense::ImageSource) of vectors | `condense_titles` |
//! | an operation of one's own | [`Op`](prelude::Op) | `custom_operation` |
//! | a kernel for it | [`Op::row_kernel`](prelude::Op::row_kernel) | `row_kernel` |
//! | an ONNX file | [`onnx`], [`ExportOnnx`](prelude::ExportOnnx) | [`onnx`] |
//! | plans and memory before a step | [`StepPlans`](prelude::StepPlans) | [`prelude`] |
//!
//! The examples lie in `crates/lessen/examples`; `cargo run --release --example mnist` runs one. `docs/library.md`
//! leads through all of this, page by page.
//!
//! A mistake in a model function, such as shapes that do not fit or a loss that is no scalar, is an error of
//! [`Trainer::new`](prelude::Trainer::new) with the line of the function:
//!
//! ```
//! # use lessen::prelude::*;
//! let wrong = Trainer::new(device()?, TrainerOptions::new(0.1), |cx| {
//!     let x = cx.input("x", DType::F32, &[4, 3]);
//!     x.matmul(cx.param("w", &[2, 1], Init::Zeros)).mean()
//! });
//! let sentence = wrong.err().unwrap().to_string();
//! assert!(sentence.contains(".rs:") && sentence.contains("matmul"));
//! # Ok::<(), Error>(())
//! ```
//!
//! The crates that it stands on: [`graph`] (programs), [`rewrite`] (rewrites), [`hardware`] (energy on accelerators),
//! [`compile`] (passes and plans), [`cpu`] (kernels), [`nn`] (layers, models, optimizers, checkpoints), [`data`]
//! (batches), [`train`] (trainer, session, generation), [`task`] (recipes, data, goals), [`saved`] (what
//! saved models answer), [`jobs`] (training, condensation, search, forecasts), [`pages`] (reports).
#![forbid(unsafe_code)]

// The files of the command name this crate as any other program does.
extern crate self as lessen;

pub mod bench;
pub mod command;
mod commands;
mod devices;
#[cfg(test)]
mod documented;
pub mod onnx;
pub mod prelude;
mod processes;
mod stdout;
mod terminal;

use stdout::say;
use terminal::tell;

pub use devices::{device, device_named, device_with, widens_integers};

pub use lessen_base::watcher;
pub use lessen_compile as compile;
pub use lessen_condense as condense;
pub use lessen_cpu as cpu;
pub use lessen_data as data;
pub use lessen_device as backend;
pub use lessen_graph as graph;
pub use lessen_hardware as hardware;
pub use lessen_jobs as jobs;
pub use lessen_nn as nn;
pub use lessen_pages as pages;
pub use lessen_rewrite as rewrite;
pub use lessen_saved as saved;
pub use lessen_search as search;
pub use lessen_task as task;
pub use lessen_train as train;

/// The programs of the guide to the library, as tests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/library.md")]
    struct FirstSteps;
    #[doc = include_str!("../../../docs/library/autoencoder.md")]
    struct Autoencoder;
    #[doc = include_str!("../../../docs/library/condensing.md")]
    struct Condensing;
    #[doc = include_str!("../../../docs/library/data-in-memory.md")]
    struct DataInMemory;
    #[doc = include_str!("../../../docs/library/from-others.md")]
    struct FromOthers;
    #[doc = include_str!("../../../docs/library/gan.md")]
    struct Gan;
    #[doc = include_str!("../../../docs/library/gradients.md")]
    struct Gradients;
    #[doc = include_str!("../../../docs/library/hugging-face.md")]
    struct HuggingFace;
    #[doc = include_str!("../../../docs/library/layers.md")]
    struct Layers;
    #[doc = include_str!("../../../docs/library/memory.md")]
    struct Memory;
    #[doc = include_str!("../../../docs/library/nan.md")]
    struct Nan;
    #[doc = include_str!("../../../docs/library/onnx.md")]
    struct Onnx;
    #[doc = include_str!("../../../docs/library/own-operation.md")]
    struct OwnOperation;
    #[doc = include_str!("../../../docs/library/own-optimizer.md")]
    struct OwnOptimizer;
    #[doc = include_str!("../../../docs/library/saved-models.md")]
    struct SavedModels;
    #[doc = include_str!("../../../docs/library/sequences.md")]
    struct Sequences;
    #[doc = include_str!("../../../docs/library/training-loop.md")]
    struct TrainingLoop;
}
