//! How is a model trained, evaluated and continued, as a library? The engine for a training loop of one's own.
//!
//! [`Trainer`] trains any function from a [`Cx`](lessen_nn::Cx) to a loss, step by step. [`Session`] runs
//! functions over parameters that do not change; a trainer has one. Each takes a
//! [`SharedDevice`](lessen_device::SharedDevice) from the caller, and several share one. Recipes, folders and terminals
//! are for `lessen-jobs`.
//!
//! - **Building** a training: [`TrainerOptions`] and [`Trainer::new`].
//! - **Stepping**: [`Trainer::step`], which returns a [`StepReport`]; [`Trainer::step_on`] accumulates batches.
//! - **A whole loop** with evaluations and callbacks: [`fit`](mod@fit).
//! - **Evaluating**: [`Trainer::function`] compiles a function over the parameters, [`Trainer::run`] runs it;
//!   [`Trainer::record`] takes [`Statistics`], [`Trainer::observe`] the values themselves.
//! - **Looking** at a model: [`Trainer::summary`]; a learning rate for it: [`Trainer::search_rate`].
//! - **Saving and resuming**: [`Trainer::save_checkpoint`] and [`Trainer::resume_checkpoint`]; [`Trainer::save`] writes
//!   a Hugging Face folder.
//! - **Predicting** in another program: [`Session::open`]; [`Session::embed`] gives vectors of texts.
//! - **Generating** text: [`Generator`] continues texts as a [`Sampling`] says.
//! - **Memory**: [`StepGraphs`] and [`StepPlans`] say what a step takes before it runs, [`Trainer::peak`] what it has
//!   taken, [`memory`] by how much the process grows.
//!
//! ```
//! use lessen_cpu::CpuBackend;
//! use lessen_device::Host;
//! use lessen_graph::{DType, Tensor};
//! use lessen_nn::{Cx, Init};
//! use lessen_train::{Trainer, TrainerOptions};
//!
//! // y = a x + b, learnt from four points of y = 2 x - 1.
//! fn line(cx: Cx) -> Tensor {
//!     let x = cx.input("x", DType::F32, &[4]);
//!     cx.param("a", &[1], Init::Zeros) * x + cx.param("b", &[1], Init::Zeros)
//! }
//!
//! let backend = Box::new(CpuBackend::new(1)?);
//! let mut trainer = Trainer::new(backend, TrainerOptions::new(0.1), |cx| {
//!     let error = line(cx) - cx.input("y", DType::F32, &[4]);
//!     (error * error).mean()
//! })?;
//! let (x, y) = ([0.0, 1.0, 2.0, 3.0], [-1.0, 1.0, 3.0, 5.0]);
//! for _ in 0..300 {
//!     trainer.step(&[("x", Host::F32(&x)), ("y", Host::F32(&y))])?;
//! }
//! let ask = trainer.function(|cx| vec![("y", line(cx))])?;
//! let results = trainer.run(ask, &[("x", Host::F32(&x))])?;
//! assert!((results.f32("y").unwrap()[3] - 5.0).abs() < 0.01);
//! # Ok::<(), lessen_base::Error>(())
//! ```
#![forbid(unsafe_code)]

mod array;
mod batch_inputs;
mod batches;
mod beside;
mod carrier;
mod dealing;
mod descent;
pub mod events;
mod exchanges;
mod filed;
pub mod fit;
mod function_graph;
mod generate;
mod graphs;
mod inputs;
mod kept;
pub mod memory;
mod norms;
mod opening;
mod options;
mod placement;
mod plans;
mod prefills;
mod progress;
mod rate_search;
mod recording_graph;
mod sequences;
mod session;
mod sharding;
mod statistics;
mod step_graph;
mod summary;
mod trainer;
mod update_graphs;
mod view;

pub use array::StateArray;
pub use batch_inputs::{inputs_of, shape_of};
pub use descent::{Descent, forget_momentum, gradients};
pub use generate::{Beams, Each, EarlyStopping, Generator, IsComplete, Rules, Sampling};
pub use graphs::StepGraphs;
pub use lessen_base::{Error, Result, parse_budget, parse_size, show_size};
pub use lessen_comm::Group;
pub use lessen_device::HostArray;
pub use options::{NonFinite, TrainerOptions};
pub use plans::StepPlans;
pub use progress::Progress;
pub use rate_search::{RateCurve, RatePoint, RateSearch};
pub use sequences::{IsBeamComplete, Next, Sequences, Suspended};
pub use session::{Function, FunctionOptions, Inputs, Pooling, Results, Session};
pub use statistics::Statistics;
pub use summary::{LayerSummary, Summary};
pub use trainer::{Part, Peak, Snapshot, StepOptions, StepReport, Trainer};
pub use update_graphs::Delayed;
