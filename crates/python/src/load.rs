//! Saved models that are ready to be asked.

use crate::arrays::matrix;
use crate::error::{raised, released};
use lessen::device_with;
use lessen_base::{Error, Result};
use lessen_compile::Precision;
use lessen_data::{Questions, TextPair};
use lessen_nn::Task;
use lessen_saved::continuation::TextGenerator;
use lessen_saved::embedding::{EmbedOptions, Embedder, Prompt};
use lessen_saved::saved_run::{
    AdapterOptions, Answerer, Cell, ImageInput, ImagePredictor, Predictor, RowPredictor, SavedRun, TaggedSpan, Tagger,
    Tags, WordTag,
};
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_task::goal::Prediction;
use numpy::{PyArray2, PyReadonlyArray1, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A way to ask the model, once it was asked for.
pub type Kept<T> = Mutex<Option<Arc<T>>>;

/// A saved model. What asks it is made when it is first needed, and shared by threads.
#[pyclass(frozen, name = "Model", module = "lessen._lessen")]
pub struct LoadedModel {
    root: PathBuf,
    embedding: EmbedOptions,
    device: NewBackend,
    /// The process that opened it: a child made by `fork` has none of its threads.
    process: u32,
    /// None for folders that only embed.
    run: Option<Arc<SavedRun>>,
    texts: Kept<Predictor>,
    images: Kept<ImagePredictor>,
    rows: Kept<RowPredictor>,
    tagger: Kept<Tagger>,
    answerer: Kept<Answerer>,
    embedder: Kept<Embedder>,
    /// A generator, and the tokens of a text that it keeps.
    pub(crate) generator: Kept<(usize, TextGenerator)>,
}

/// What a model is asked about.
#[derive(FromPyObject)]
enum Asked<'py> {
    Texts(Vec<TextPair>),
    Images(Vec<GivenImage<'py>>),
    /// Names of columns, and a cell for each in each row.
    Rows((Vec<String>, Vec<Vec<Option<GivenCell>>>)),
}

#[derive(FromPyObject)]
enum GivenImage<'py> {
    File(PathBuf),
    /// Height, width and channels.
    Pixels(PyReadonlyArray3<'py, u8>),
    Numbers(PyReadonlyArray1<'py, f32>),
}

#[derive(FromPyObject)]
enum GivenCell {
    Number(f64),
    Text(String),
}

/// A question in Rust's types.
enum Question {
    Texts(Vec<TextPair>),
    Images(Vec<ImageInput>),
    Rows(Vec<String>, Vec<Vec<Cell>>),
}

/// Predictions: what they are, their numbers or texts, and the probabilities of all classes.
type Predicted<'py> = (&'static str, Bound<'py, PyAny>, Option<Bound<'py, PyArray2<f64>>>);

/// Tags of a sentence: of each word the class and the probabilities of all, and entities with words and probability.
type Tagged = (Vec<Option<(usize, Vec<f64>)>>, Vec<(String, usize, usize, f64)>);

/// An answer: text, first character, the one after the last, probability, and by how much no answer scores higher.
type FoundSpan = (String, usize, usize, f64, f64);

#[pymethods]
impl LoadedModel {
    /// Opens the folder `root`. `step` is the number of a checkpoint, -1 the best model, and none the last one.
    #[new]
    #[pyo3(signature = (root, *, step, precision, threads, base, max_length))]
    fn open(
        py: Python<'_>,
        root: PathBuf,
        step: Option<i64>,
        precision: Option<&str>,
        threads: Option<usize>,
        base: Option<PathBuf>,
        max_length: Option<usize>,
    ) -> PyResult<LoadedModel> {
        let precision = precision
            .map(parse_precision)
            .transpose()
            .map_err(|error| raised(py, &error))?;
        let which = match step {
            None => WhichModel::Last,
            Some(step) => u64::try_from(step).map_or(WhichModel::Best, WhichModel::Step),
        };
        let adapters = AdapterOptions {
            base,
            added: Vec::new(),
        };
        released(py, move || {
            let device = NewBackend::new(move || device_with("cpu", threads));
            let embedding = EmbedOptions {
                which,
                adapters: adapters.clone(),
                precision,
                max_length,
                ..EmbedOptions::default()
            };
            let (run, embedder) = match SavedRun::open(&root, which, adapters, &device) {
                Ok(mut run) => {
                    precision.into_iter().for_each(|precision| run.set_precision(precision));
                    (Some(Arc::new(run)), None)
                }
                // A folder of sentence-transformers may have no model of another kind.
                Err(error) => match Embedder::open(&root, &embedding, &device) {
                    Ok(embedder) => (None, Some(Arc::new(embedder))),
                    Err(_) => return Err(error),
                },
            };
            Ok(LoadedModel {
                root,
                embedding,
                device,
                process: std::process::id(),
                run,
                texts: Kept::default(),
                images: Kept::default(),
                rows: Kept::default(),
                tagger: Kept::default(),
                answerer: Kept::default(),
                embedder: Mutex::new(embedder),
                generator: Kept::default(),
            })
        })
    }

    /// What it reads: `texts`, `pairs`, `images`, `rows`, or nothing but texts to embed.
    fn reads(&self) -> &'static str {
        match &self.run {
            None => "embedding",
            Some(run) if run.reads_tables() => "rows",
            Some(run) if run.saved().reader.preprocessing().is_ok() => "images",
            Some(run) if run.has_pairs() == Some(true) => "pairs",
            Some(_) => "texts",
        }
    }

    /// What it was trained for, such as `classification`.
    fn task(&self) -> &'static str {
        match self.run.as_ref().map(|run| run.task()) {
            None => "embedding",
            Some(Task::TokenClassification { .. }) => "tagging",
            Some(Task::QuestionAnswering) => "answering",
            Some(Task::LanguageModelling) => "generation",
            Some(_) => "prediction",
        }
    }

    /// The names of its classes, by their numbers.
    fn labels(&self) -> Vec<String> {
        self.run.as_ref().map_or(Vec::new(), |run| run.labels().to_vec())
    }

    /// Predictions about texts, images or rows.
    fn predict<'py>(&self, py: Python<'py>, asked: Asked<'py>) -> PyResult<Predicted<'py>> {
        let question = question(asked);
        let found = released(py, || match question {
            Question::Texts(texts) => {
                let answers = self.kept(&self.texts, SavedRun::predictor)?.ask(&texts)?;
                answers
                    .into_iter()
                    .map(|answer| answer.map(|answer| answer.prediction))
                    .collect()
            }
            Question::Images(images) => self.kept(&self.images, SavedRun::image_predictor)?.ask(&images),
            Question::Rows(names, rows) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let answers = self
                    .kept(&self.rows, SavedRun::row_predictor)?
                    .ask_cells(&names, &rows)?;
                answers.into_iter().collect()
            }
        })?;
        predicted(py, found)
    }

    /// The logits `[examples, classes]` for texts, images or rows.
    fn logits<'py>(&self, py: Python<'py>, asked: Asked<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let question = question(asked);
        let found = released(py, || match question {
            Question::Texts(texts) => self.kept(&self.texts, SavedRun::predictor)?.logits(&texts),
            Question::Images(images) => self.kept(&self.images, SavedRun::image_predictor)?.logits(&images),
            Question::Rows(names, rows) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let predictor = self.kept(&self.rows, SavedRun::row_predictor)?;
                predictor.logits(&predictor.encoded(&names, &rows)?)
            }
        })?;
        matrix(py, found)
    }

    /// The tags of sentences, each a list of words.
    fn tag(&self, py: Python<'_>, sentences: Vec<Vec<String>>) -> PyResult<Vec<Tagged>> {
        released(py, || {
            let found = self.kept(&self.tagger, SavedRun::tagger)?.tag(&sentences)?;
            let tagged = found.into_iter().map(|tags| {
                let Tags { words, spans } = tags?;
                let word = |word: WordTag| (word.class, word.probabilities);
                let span = |TaggedSpan { entity, probability }: TaggedSpan| {
                    (entity.kind, entity.words.start, entity.words.end, probability)
                };
                let words = words.into_iter().map(|own| own.map(word)).collect();
                Ok((words, spans.into_iter().map(span).collect()))
            });
            tagged.collect()
        })
    }

    /// Answers to questions about contexts.
    fn answer(&self, py: Python<'_>, pairs: Vec<(String, String)>) -> PyResult<Vec<FoundSpan>> {
        released(py, || {
            let pairs = pairs
                .iter()
                .map(|(question, context)| (question.as_str(), context.as_str()));
            let questions = Arc::new(Questions::unanswered(pairs));
            let found = self.kept(&self.answerer, SavedRun::answerer)?.ask(questions)?;
            let answers = found.into_iter().map(|answer| {
                let answer = answer?;
                let characters = answer.characters;
                Ok((
                    answer.text,
                    characters.start,
                    characters.end,
                    answer.probability,
                    answer.null_margin,
                ))
            });
            answers.collect()
        })
    }

    /// The vectors `[texts, elements]` of texts, after the prompt of this name, or after this text.
    #[pyo3(signature = (texts, *, prompt_name, prompt, normalize))]
    fn embed<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<String>,
        prompt_name: Option<String>,
        prompt: Option<String>,
        normalize: Option<bool>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (found, dim) = released(py, || {
            self.check_process()?;
            let open = || Embedder::open(&self.root, &self.embedding, &self.device);
            let embedder = kept(&self.embedder, open)?;
            let prompt = match (&prompt_name, &prompt) {
                (Some(name), _) => Prompt::Named(name),
                (None, Some(text)) => Prompt::Text(text),
                (None, None) => Prompt::Default,
            };
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let normalize = normalize.unwrap_or(embedder.normalizes());
            Ok((embedder.embed_with(&texts, prompt, normalize)?.rows, embedder.dim()))
        })?;
        match found.is_empty() {
            true => Ok(PyArray2::zeros(py, [0, dim], false)),
            false => matrix(py, found),
        }
    }
}

impl LoadedModel {
    /// The model as it is opened for anything but embedding.
    pub(crate) fn run(&self) -> Result<&Arc<SavedRun>> {
        self.check_process()?;
        self.run.as_ref().ok_or_else(|| {
            let shown = self.root.display();
            Error::user(format!(
                "{shown} only embeds texts; ask it with embed, or open another folder"
            ))
        })
    }

    /// A way to ask the model.
    fn kept<T>(&self, slot: &Kept<T>, make: impl FnOnce(&SavedRun) -> Result<T>) -> Result<Arc<T>> {
        let run = self.run()?;
        kept(slot, || make(run))
    }

    /// Refuses to wait for threads that a child process does not have.
    fn check_process(&self) -> Result<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(Error::user(format!(
            "{} was opened before this process was forked, and its threads are not in the child; open it again here, or start \
             processes with spawn",
            self.root.display()
        )))
    }
}

/// What a slot has, which is made where it is empty.
fn kept<T>(slot: &Kept<T>, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = &*slot {
        return Ok(found.clone());
    }
    Ok(slot.insert(Arc::new(make()?)).clone())
}

fn parse_precision(word: &str) -> Result<Precision> {
    match word {
        "f32" => Ok(Precision::F32),
        "bf16" => Ok(Precision::Bf16),
        "int8" => Ok(Precision::Int8),
        "int4" => Ok(Precision::Int4),
        _ => Err(Error::user(format!(
            "there is no precision '{word}'; choose one of f32, bf16, int8, int4"
        ))),
    }
}

fn question(asked: Asked<'_>) -> Question {
    match asked {
        Asked::Texts(texts) => Question::Texts(texts),
        Asked::Images(images) => Question::Images(images.into_iter().map(image).collect()),
        Asked::Rows((names, rows)) => {
            let cell = |cell| match cell {
                Some(GivenCell::Number(number)) => Cell::Number(number),
                Some(GivenCell::Text(text)) => Cell::Text(text),
                None => Cell::Missing,
            };
            Question::Rows(
                names,
                rows.into_iter()
                    .map(|row| row.into_iter().map(cell).collect())
                    .collect(),
            )
        }
    }
}

fn image(given: GivenImage<'_>) -> ImageInput {
    match given {
        GivenImage::File(path) => ImageInput::File(path),
        GivenImage::Pixels(pixels) => {
            let shape = pixels.shape();
            let shape = [shape[0], shape[1], shape[2]];
            ImageInput::Pixels(shape, pixels.as_array().iter().copied().collect())
        }
        GivenImage::Numbers(numbers) => ImageInput::Numbers(numbers.as_array().to_vec()),
    }
}

/// Predictions for Python.
fn predicted<'py>(py: Python<'py>, found: Vec<Prediction>) -> PyResult<Predicted<'py>> {
    let (mut classes, mut sets, mut values, mut texts, mut shares) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for prediction in found {
        match prediction {
            Prediction::Class(class, probabilities) => {
                classes.push(class);
                shares.push(probabilities);
            }
            Prediction::Labels(labels, probabilities) => {
                sets.push(labels);
                shares.push(probabilities);
            }
            Prediction::Score(value) => values.push(value),
            Prediction::Sum(text) => texts.push(text),
        }
    }
    let shares = if shares.is_empty() {
        None
    } else {
        Some(matrix(py, shares)?)
    };
    let (kind, found) = if !sets.is_empty() {
        ("labels", sets.into_pyobject(py)?)
    } else if !values.is_empty() {
        ("value", values.into_pyobject(py)?)
    } else if !texts.is_empty() {
        ("text", texts.into_pyobject(py)?)
    } else {
        ("class", classes.into_pyobject(py)?)
    };
    Ok((kind, found, shares))
}
