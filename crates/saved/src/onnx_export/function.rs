//! The inference function of a model: its logits, or the embeddings of texts.

use super::OnnxOptions;
use crate::embedding::{EmbedOptions, Embedder, EmbeddingFunction, is_embedder};
use crate::saved_run::{SavedRun, model_dir};
use lessen_base::{Error, Result};
use lessen_compile::Precision;
use lessen_graph::{InputKind, Tensor, Trace};
use lessen_nn::{BatchShape, Cx, Model, Task, checkpoint};
use lessen_onnx::export::{ExportInput, InputForm, Sample, points};
use lessen_task::device::NewBackend;
use lessen_train::{Results, Session};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The length of texts up to which a model without a limit is traced.
const LENGTH: usize = 512;

/// An inference function with its parameters on a device.
pub(super) struct Function {
    session: Session,
    outputs: Outputs,
    source: PathBuf,
    notes: Vec<String>,
}

/// What the function gives.
enum Outputs {
    /// The logits of a model with a head.
    Logits(Box<Model>),
    /// The states of texts, and their vectors.
    Embeddings(Box<EmbeddingFunction>),
}

impl Outputs {
    fn model(&self) -> &Model {
        match self {
            Outputs::Logits(model) => model,
            Outputs::Embeddings(function) => function.model(),
        }
    }

    /// Adds the function to the graph.
    fn trace(&self, cx: Cx, batch: BatchShape) -> Vec<(&'static str, Tensor)> {
        let model = match self {
            Outputs::Embeddings(function) => return function.trace(cx, batch),
            Outputs::Logits(model) => model,
        };
        let logits = model.logits(cx, batch);
        if model.task() == Task::QuestionAnswering {
            let part = |index: usize| logits.slice(0, index, 1).reshape(&batch.tokens());
            return vec![("start_logits", part(0)), ("end_logits", part(1))];
        }
        vec![("logits", logits)]
    }
}

impl Function {
    /// Reads a model.
    ///
    /// # Errors
    /// As [`SavedRun::open`].
    pub(super) fn open(root: &Path, options: &OnnxOptions, new_backend: &NewBackend) -> Result<Function> {
        if options.embeds || is_embedder(root, &options.adapters)? {
            let how = EmbedOptions {
                which: options.which,
                adapters: options.adapters.clone(),
                precision: Some(Precision::F32),
                ..EmbedOptions::default()
            };
            let embedder = Embedder::open(root, &how, new_backend)?;
            let (session, function, notes) = embedder.into_function();
            return Ok(Function {
                session,
                outputs: Outputs::Embeddings(Box::new(function)),
                source: model_dir(root, options.which)?,
                notes,
            });
        }
        let mut run = SavedRun::open(root, options.which, options.adapters.clone(), new_backend)?;
        run.set_precision(Precision::F32);
        let is_of_integers = checkpoint::check_unquantized(run.source()).is_err();
        let note = "the file has the model's integers as floats; `lessen quantize FILE.onnx` writes one of integers";
        Ok(Function {
            session: run.session()?,
            outputs: Outputs::Logits(Box::new(run.saved().model.clone())),
            source: run.source().to_path_buf(),
            notes: is_of_integers.then(|| note.to_string()).into_iter().collect(),
        })
    }

    /// The function of a model with its parameters in a session.
    #[cfg(test)]
    pub(super) fn of_model(model: Model, session: Session) -> Function {
        Function {
            session,
            outputs: Outputs::Logits(Box::new(model)),
            source: PathBuf::new(),
            notes: Vec::new(),
        }
    }

    /// The folder of the model.
    pub(super) fn source(&self) -> &Path {
        &self.source
    }

    /// What there is to say of the model, a sentence each.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The model.
    pub(super) fn model(&self) -> &Model {
        self.outputs.model()
    }

    /// The names of the dimensions.
    pub(super) fn dimensions(&self) -> &'static [&'static str] {
        match self.model().image() {
            Some(_) => &["batch_size"],
            None => &["batch_size", "sequence_length"],
        }
    }

    /// The layout of a batch of these sizes.
    pub(super) fn layout(&self, sizes: &[usize]) -> BatchShape {
        match self.model().image() {
            Some(image) => BatchShape::Images {
                size: sizes[0],
                image,
                mixed: false,
            },
            None => BatchShape::Padded {
                size: sizes[0],
                length: sizes[1],
            },
        }
    }

    /// The most tokens of a text; none for a model of images.
    ///
    /// # Errors
    /// A model of texts so short that nothing follows from them for others.
    pub(super) fn longest(&self) -> Result<Option<usize>> {
        if self.model().image().is_some() {
            return Ok(None);
        }
        let longest = self.model().max_length().unwrap_or(LENGTH);
        if longest < 4 {
            return Err(Error::user(format!(
                "the model reads texts of at most {longest} tokens; only models of texts of 4 tokens and more are exported"
            )));
        }
        Ok(Some(longest))
    }

    /// The function at a few sizes.
    ///
    /// # Errors
    /// As [`Function::longest`].
    pub(super) fn samples(&self) -> Result<Vec<Sample>> {
        let mut bounds = vec![(2, 1 << 16)];
        bounds.extend(self.longest()?.map(|longest| (2, longest)));
        let sample = |sizes: Vec<usize>| {
            let layout = self.layout(&sizes);
            let trace = Trace::new();
            trace.attempt(|| {
                let cx = Cx::new(*trace, false);
                for (name, value) in self.outputs.trace(cx, layout) {
                    trace.output(name, value);
                }
            })?;
            Ok(Sample {
                sizes,
                graph: trace.finish(),
            })
        };
        points(&bounds).into_iter().map(sample).collect()
    }

    /// How the inputs of the function are inputs of the file, by transformers' names.
    pub(super) fn inputs(&self) -> Vec<ExportInput> {
        let all = [
            ("tokens", "input_ids", InputForm::Same),
            ("mask", "attention_mask", InputForm::Mask),
            ("types", "token_type_ids", InputForm::Same),
            ("images", "pixel_values", InputForm::ChannelsFirst),
        ];
        let input = |(name, shown, form): (&str, &str, InputForm)| ExportInput {
            name: name.to_string(),
            shown: shown.to_string(),
            form,
        };
        all.map(input).to_vec()
    }

    /// The names of the inputs that the function reads.
    ///
    /// # Errors
    /// As [`Function::longest`].
    pub(super) fn reads(&self) -> Result<Vec<String>> {
        let samples = self.samples()?;
        let inputs = samples
            .first()
            .map(|sample| &sample.graph.inputs[..])
            .unwrap_or_default();
        let data = inputs.iter().filter(|input| input.kind == InputKind::Data);
        Ok(data.map(|input| input.name.clone()).collect())
    }

    /// The values of a parameter.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn parameter(&self, name: &str) -> Result<Vec<f32>> {
        self.session.weight(name)
    }

    /// What the model computes for inputs of these sizes, by the names of its outputs.
    ///
    /// # Errors
    /// Inputs that do not fit the model.
    pub(super) fn run(
        &mut self,
        sizes: &[usize],
        inputs: &lessen_train::Inputs<'_>,
    ) -> Result<Vec<(String, Vec<f32>)>> {
        let layout = self.layout(sizes);
        let Function { session, outputs, .. } = self;
        let function = session.function(|cx| outputs.trace(cx, layout))?;
        let results = session.run(function, inputs)?;
        session.unload(function)?;
        named(&results)
    }

    /// What the file says of the model.
    pub(super) fn metadata(&self) -> Vec<(String, String)> {
        let model = self.model();
        let mut entries = vec![
            ("lessen_version".to_string(), env!("CARGO_PKG_VERSION").to_string()),
            ("architecture".to_string(), model.architecture().name().to_string()),
        ];
        if matches!(self.outputs, Outputs::Logits(_)) && !model.labels().is_empty() {
            let labels = model.labels().iter().enumerate();
            let labels: Map<String, Value> = labels
                .map(|(number, label)| (number.to_string(), json!(label)))
                .collect();
            entries.push(("id2label".to_string(), Value::Object(labels).to_string()));
        }
        entries
    }
}

/// The results of a function by their names.
///
/// # Errors
/// A result of another dtype than `f32`.
pub(super) fn named(results: &Results) -> Result<Vec<(String, Vec<f32>)>> {
    let named = |name: &str| Ok((name.to_string(), results.f32(name)?.to_vec()));
    results.names().map(named).collect()
}
