//! Everything that a model of one's own needs: to define it, to train it, to run it. The examples below have each item
//! at least once, or a link to the example that has it; names such as `mnist` are of `crates/lessen/examples`.
//!
//! # Layers
//!
//! Images are `[N, H, W, C]`, sequences `[B, T, W]`. A layer declares its parameters under the name that it is given.
//!
//! ```
//! use lessen::prelude::*;
//!
//! /// Logits `[8, 10]` of images of 28 x 28 pixels.
//! fn images(cx: Cx) -> Tensor {
//!     let x = cx.input("images", DType::F32, &[8, 28, 28, 1]);
//!     let x = conv2d(cx, "first", x, Convolution::square(8, 3, 1).with_bias());
//!     let x = batch_norm(cx, "norm", x, BatchNorm::default()).relu().max_pool2d(Pool2d::square(2));
//!     let x = conv2d(cx, "second", x, Convolution::square(16, 3, 2));
//!     let x = instance_norm(group_norm(cx, "groups", x, 4, 1e-5).relu(), 1e-5);
//!     linear(cx, "digits", x.global_avg_pool2d().reshape(&[8, 16]), 10, Init::Normal { std: 0.1 })
//! }
//!
//! /// Scores `[2, 3]` of two texts of up to 12 tokens.
//! fn texts(cx: Cx) -> Tensor {
//!     let init = Init::Normal { std: 0.1 };
//!     let tokens = cx.input("tokens", DType::I32, &[2, 12]);
//!     let x = layer_norm(cx, "norm", embedding(cx, "words", tokens, (100, 16), init), 1e-5);
//!     let both = Recurrent { is_bidirectional: true, ..Recurrent::of(8) };
//!     let RecurrentStates { y, .. } = lstm(cx, "lstm", x, both);
//!     let y = rms_norm(cx, "rms", gru(cx, "gru", y, Recurrent::of(16)).y, 1e-6);
//!     let y = conv1d(cx, "mix", y, Convolution1d::centred(16, 3, 1));
//!     let pooled = mean_pool(y, cx.input("mask", DType::Bool, &[2, 12]));
//!     linear(cx, "scores", pooled, 3, init)
//! }
//!
//! let options = TrainerOptions::new(1e-3);
//! let mut trainer = Trainer::new(device()?, options.clone(), |cx| images(cx).abs().mean())?;
//! let report: StepReport = trainer.step(&[("images", Host::F32(&[0.5; 8 * 28 * 28]))])?;
//! assert_eq!(report.step, 1);
//! let mut trainer = Trainer::new(device_named("cpu")?, options, |cx| texts(cx).mean())?;
//! trainer.step(&[("tokens", Host::I32(&[7; 24])), ("mask", Host::Bool(&[1; 24]))])?;
//! # Ok::<(), Error>(())
//! ```
//!
//! Attention is [`multi_head`] with an [`Attend`]: see [`Tensor`] and the models of [`nn`](crate::nn).
//!
//! # Plans before a step, parts of a batch, several threads
//!
//! ```
//! use lessen::prelude::*;
//!
//! fn loss(cx: Cx, rows: usize) -> Tensor {
//!     let x = cx.input("x", DType::F32, &[rows, 3]);
//!     (linear(cx, "line", x, 1, Init::Zeros) - cx.input("y", DType::F32, &[rows, 1])).abs().mean()
//! }
//!
//! let device = SharedDevice::new(device()?);
//! let group = ParamGroup { lr_factor: 2.0, ..ParamGroup::new("*.bias".parse()?) };
//! let mut options = TrainerOptions {
//!     optimizer: OptimizerConfig::adamw(0.01),
//!     schedule: LrSchedule { kind: LrScheduleKind::Constant, peak: 0.1, warmup: 0, total: 0 },
//!     placement: Placement::BackwardFused,
//!     precision: Precision::F32,
//!     groups: vec![group],
//!     accumulate: 2,
//!     ..TrainerOptions::new(0.1)
//! };
//! // What a step takes, and the least that it can take, before anything is allocated.
//! let graphs = StepGraphs::new(&options, |cx| loss(cx, 4))?;
//! let floor = graphs.floor_bytes(&device, &options)?;
//! assert!(floor <= StepPlans::new(&device, &options, &graphs)?.peak_bytes());
//! options.budget = Some(floor);
//!
//! // Each step is on two parts of a batch, each half of the loss.
//! let mut trainer = Trainer::new(&device, options, |cx| loss(cx, 4))?;
//! let (x, y) = ([1.0; 12], [2.0; 4]);
//! let inputs = [("x", Host::F32(&x)), ("y", Host::F32(&y))];
//! trainer.step_on(&[Part::new(0.5, &inputs), Part::new(0.5, &inputs)])?;
//!
//! // Threads share a session, and so its parameters: each gets the results of its own inputs.
//! let mut session: Session = trainer.finish()?;
//! let ask: Function = session.function_with(FunctionOptions { tightest: true, ..FunctionOptions::default() }, |cx| {
//!     vec![("loss", loss(cx, 4))]
//! })?;
//! let session = &session;
//! let ask = || -> Result<f64> {
//!     let results: Results = session.run(ask, &inputs)?;
//!     results.scalar("loss")
//! };
//! let alone = ask()?;
//! std::thread::scope(|scope| {
//!     let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
//!     threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Ok(alone)));
//! });
//! # Ok::<(), Error>(())
//! ```
//!
//! # Where the other items are shown
//!
//! | item | example |
//! |---|---|
//! | [`ArrayBatches`], [`Batch`], [`Field`], [`Metric`], [`Order`], [`Prefetch`], [`Source`], [`inputs_of`] | `mnist` |
//! | [`Tokenizer`], [`Model`], [`BatchShape`], [`shape_of`], [`checkpoint`], [`Outputs`] | `finetune_bert` |
//! | [`Op`], [`Attr`], [`Attrs`], [`Vjp`], [`RowWise`], [`Type`], [`Trace`], [`TraceRef`] | `custom_operation` |
//! | [`ParamSpec`], [`Weight`], [`Weights`] | `resume`; [`Session::new`] |
//! | [`Backend`], [`NewBackend`], [`PlanDevice`] | [`SharedDevice`], `finetune_bert` |
//! | [`Generator`], [`Sampling`] | [`Generator`], `lessen generate` |
//! | [`RowKernel`] | `row_kernel` |
//! | [`StepOptions`] | `gan` |
//! | [`Algorithm`], [`UpdateAlgorithm`], [`ParamUpdate`] | `own_optimizer` |
//! | [`LrFunction`], [`Plateau`], [`NonFinite`] | [`LrFunction`], [`Plateau`], [`NonFinite`] |
//! | [`losses`] | [`losses`] |
//! | [`concat()`], [`stack`], [`Conv1dOptions`], [`Conv2dOptions`], [`Pool1d`] | [`Tensor`] |
//! | [`conv_transpose1d`], [`conv_transpose2d`], [`lstm_from`], [`gru_from`] | [`layers`](crate::nn::layers) |
//! | [`ExportOnnx`] | [`onnx`](crate::onnx) |

pub use crate::onnx::ExportOnnx;
pub use crate::{device, device_named};
pub use lessen_compile::{Placement, Precision};
pub use lessen_data::{ArrayBatches, Batch, Field, Metric, Order, Prefetch, Source, Tokenizer};
pub use lessen_device::{Backend, Host, PlanDevice, SharedDevice};
pub use lessen_graph::{
    Attr, Attrs, Conv1dOptions, Conv2dOptions, DType, Op, Pool1d, Pool2d, RowKernel, RowWise, Tensor, Trace, TraceRef,
    Type, Vjp, concat, stack,
};
pub use lessen_nn::layers::{
    Attend, BatchNorm, Convolution, Convolution1d, Recurrent, RecurrentStates, batch_norm, conv_transpose1d,
    conv_transpose2d, conv1d, conv2d, embedding, group_norm, gru, gru_from, instance_norm, layer_norm, linear, lstm,
    lstm_from, mean_pool, multi_head, rms_norm,
};
pub use lessen_nn::losses;
pub use lessen_nn::{
    Algorithm, BatchShape, Cx, Init, LrFunction, LrSchedule, LrScheduleKind, Model, OptimizerConfig, Outputs,
    ParamGroup, ParamSpec, ParamUpdate, Plateau, UpdateAlgorithm, Weight, Weights, checkpoint,
};
pub use lessen_task::device::NewBackend;
pub use lessen_task::evaluation::{inputs_of, shape_of};
pub use lessen_train::{
    Error, Function, FunctionOptions, Generator, NonFinite, Part, Result, Results, Sampling, Session, StepGraphs,
    StepOptions, StepPlans, StepReport, Trainer, TrainerOptions,
};

#[cfg(test)]
mod tests {
    /// The names that are exported here.
    fn names(text: &str) -> Vec<&str> {
        let exports = text
            .split("pub use ")
            .skip(1)
            .filter_map(|export| export.split(';').next());
        let listed = exports.flat_map(|export| match export.split_once('{') {
            Some((_, names)) => names.split([',', '}']).map(str::trim).collect(),
            None => vec![export.rsplit("::").next().unwrap_or_default()],
        });
        listed.filter(|name| !name.is_empty()).collect()
    }

    #[test]
    fn every_item_of_the_prelude_has_an_example() {
        let text = include_str!("prelude.rs");
        let (text, _) = text.split_once("#[cfg(test)]").unwrap();
        let (shown, code): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("//!"));
        let (shown, code) = (shown.join("\n"), code.join("\n"));
        let words: Vec<&str> = shown.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let names = names(&code);
        assert!(names.len() > 60 && names.contains(&"ExportOnnx"), "{names:?}");
        for name in names {
            assert!(words.contains(&name), "`{name}` has no example in prelude.rs");
        }
    }
}
