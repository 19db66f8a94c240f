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
//! Attention is [`multi_head`] with an [`Attend`]; `docs/library/sequences.md` has a Transformer.
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
//! # Other shapes, an operation with an attribute, parameters as values
//!
//! ```
//! use lessen::prelude::*;
//!
//! #[derive(PartialEq, Debug)]
//! struct Scaled(f64);
//!
//! impl Op for Scaled {
//!     fn name(&self) -> &'static str {
//!         "guide.scaled"
//!     }
//!     fn attrs(&self) -> Attrs {
//!         Attrs::new().with("factor", Attr::Float(self.0))
//!     }
//!     fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
//!         Ok(inputs.to_vec())
//!     }
//!     fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
//!         Some(vec![inputs[0] * self.0])
//!     }
//!     fn row_wise(&self, inputs: &[Type], outputs: &[Type]) -> RowWise {
//!         RowWise::of_last_axis(inputs, outputs)
//!     }
//! }
//!
//! /// The second halves of sequences, `[2, 4, 8]`: networks go on with the states after the first halves.
//! fn halves(cx: Cx) -> Tensor {
//!     let x = cx.input("x", DType::F32, &[2, 8, 3]);
//!     let (first, second, form) = (x.slice(1, 0, 4), x.slice(1, 4, 4), Recurrent::of(4));
//!     let RecurrentStates { h, c, .. } = lstm(cx, "lstm", first, form);
//!     let y = lstm_from(cx, "lstm", second, form, (&h, &c)).y;
//!     let z = gru_from(cx, "gru", second, form, &gru(cx, "gru", first, form).h).y;
//!     concat(&[y, stack(&[y, z], 0).max_axes(&[0])], -1)
//! }
//!
//! /// Images `[2, 4, 2, 3]`, made of the sequences.
//! fn images(cx: Cx) -> Tensor {
//!     let options = Conv1dOptions { stride: 2, ..Conv1dOptions::default() };
//!     let longer = Convolution1d { options, ..Convolution1d::centred(3, 2, 1) };
//!     let y = conv_transpose1d(cx, "longer", halves(cx), longer, 0).max_pool1d(Pool1d::of(4));
//!     let options = Conv2dOptions { stride: [2, 2], ..Conv2dOptions::default() };
//!     let larger = Convolution { options, ..Convolution::square(3, 2, 1) };
//!     conv_transpose2d(cx, "larger", y.reshape(&[2, 2, 1, 3]), larger, [0, 0])
//! }
//!
//! let rate = LrFunction::new(|step| 0.1 / (step + 1) as f64);
//! let options = TrainerOptions { rate: Some(rate), non_finite: NonFinite::Skip, ..TrainerOptions::new(0.1) };
//! let mut trainer = Trainer::new(device()?, options, |cx| {
//!     let y = images(cx);
//!     let scaled: Tensor = cx.trace().apply1(Scaled(0.5), &[y]);
//!     losses::huber(scaled, y.full_like(1.0), 1.0)
//! })?;
//! let x = [0.5; 48];
//! trainer.step(&[("x", Host::F32(&x))])?;
//! trainer.set_lr(Plateau::new(0.05).observe(1.0))?;
//!
//! // A session needs no trainer: parameters and their values are enough.
//! let (params, weights): (Vec<ParamSpec>, Weights) = (trainer.params().to_vec(), trainer.weights()?);
//! let Weight { shape, .. } = &weights["larger.weight"];
//! assert_eq!(shape[..], [3, 3, 2, 2]);
//! let mut session = Session::new(device()?, params, &weights)?;
//! let ask = session.function(|cx| vec![("images", images(cx))])?;
//! assert_eq!(session.run(ask, &[("x", Host::F32(&x))])?.f32("images")?.len(), 48);
//!
//! // A graph by itself, for `graph::evaluate` or a compiler.
//! let trace = Trace::new();
//! let cx: TraceRef = *trace;
//! trace.output("y", cx.input("x", DType::F32, &[4]).tanh());
//! assert_eq!(trace.finish().nodes.len(), 1);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Texts of a language model
//!
//! ```no_run
//! use lessen::prelude::*;
//! use std::path::Path;
//!
//! let folder = Path::new("gpt2");
//! let (model, tokenizer) = (Model::from_dir(folder)?, Tokenizer::from_dir(folder)?);
//! let weights = checkpoint::load(folder, &model.parameters(), &|_| false)?.weights;
//! let session = Session::new(device()?, model.parameters(), &weights)?;
//! let mut generator = Generator::new(session, &model, 1024)?;
//! let sampling = Sampling { tokens: 20, temperature: 0.8, ..Sampling::default() };
//! let added = generator.generate(&tokenizer.encode("Once upon a time")?, &sampling)?;
//! println!("{}", tokenizer.decode(&added)?);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Where the other items are shown
//!
//! | item | example |
//! |---|---|
//! | [`ArrayBatches`], [`Batch`], [`Field`], [`Order`], [`Prefetch`], [`Source`] | `batches` |
//! | [`Metric`], [`inputs_of`] | `mnist` |
//! | [`BatchShape`], [`shape_of`], [`Outputs`] | `finetune_bert` |
//! | [`Vjp`] | `custom_operation` |
//! | [`Backend`], [`RowKernel`] | `row_kernel` |
//! | [`NewBackend`] | `search` |
//! | [`PlanDevice`] | [`SharedDevice`], which is one |
//! | [`StepOptions`] | `gan` |
//! | [`Algorithm`], [`UpdateAlgorithm`], [`ParamUpdate`] | `own_optimizer` |
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
