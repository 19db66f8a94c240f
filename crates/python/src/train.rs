//! Trainings, forecasts, and all other commands, whose answers are what they print as JSON.

use crate::error::{raised, released};
use crate::interrupt::attended;
use crate::processes::{Joining, together};
use lessen::command;
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_data::images::{Image, ImageLabels, ImagesInMemory};
use lessen_data::memory::{DataInMemory, Splits};
use lessen_data::table::{ColumnValues, TableInMemory};
use lessen_data::tagged::TaggedWords;
use lessen_jobs::forecast::{Additions, Forecast};
use lessen_jobs::job::processes::OwnFolder;
use lessen_jobs::training::{self, Request};
use lessen_task::device::NewBackend;
use numpy::{PyReadonlyArray1, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::prelude::*;
use serde_json::json;
use std::sync::Arc;

/// A split of data in memory, as Python's files hand it over.
#[derive(FromPyObject)]
pub enum Split<'py> {
    /// Columns by their names.
    Table(Vec<(String, Column<'py>)>),
    /// Sentences: words, and their labels.
    Sentences(Vec<(Vec<String>, Vec<String>)>),
    Texts(Vec<String>),
    /// Images of one size: their shape, all of their bytes, and labels.
    Array((Vec<usize>, PyReadonlyArray1<'py, u8>, Labels)),
    /// Images of any sizes, and labels.
    Images((Vec<PyReadonlyArray3<'py, u8>>, Labels)),
}

#[derive(FromPyObject)]
pub enum Column<'py> {
    Numbers(PyReadonlyArray1<'py, f64>),
    Texts(Vec<String>),
    Lists(Vec<Vec<String>>),
}

#[derive(FromPyObject)]
pub enum Labels {
    Numbers(Vec<i64>),
    Names(Vec<String>),
}

/// The training split, those of evaluations and of tests, the names of classes, and weights of the training examples.
pub type Given<'py> = (
    Split<'py>,
    Option<Split<'py>>,
    Option<Split<'py>>,
    Option<Vec<String>>,
    Option<PyReadonlyArray1<'py, f32>>,
);

/// A report as JSON and as text, and whether the run was stopped.
pub type Reported = (String, String, bool);

/// A training that is asked for with the arguments of `lessen train`, and that the processes of a group share.
pub struct Asked {
    pub request: Request,
    device: NewBackend,
    /// The folder of the first process, and the own one of another.
    out: String,
    own: Option<OwnFolder>,
}

impl Asked {
    /// The training on data in memory, where it is given.
    ///
    /// # Errors
    /// A mistake in data or arguments of one process, which is the error of all.
    pub fn of(args: &[String], data: Result<Option<DataInMemory>>, group: &Group) -> Result<Asked> {
        let told = data.as_ref().map(|_| Vec::new()).map_err(Error::clone);
        group.agree("the data", told)?;
        let (request, device, own) = match group.size() {
            1 => command::training(args).map(|(request, device)| (request, device, None))?,
            _ => command::shared_training(args, group)?,
        };
        let out = group.of_first("the folder", request.out().display().to_string().into_bytes())?;
        let request = match data? {
            Some(data) => request.with_data(data),
            None => request,
        };
        Ok(Asked {
            request,
            device,
            out: String::from_utf8_lossy(&out).into_owned(),
            own,
        })
    }

    /// Trains; the report, which names the folder of the first process.
    ///
    /// # Errors
    /// Those of the training.
    pub fn train(self) -> Result<Reported> {
        let report = training::train(&self.request, &self.device)?;
        let (mut json, mut text) = (report.to_json(), report.to_text());
        if self.own.is_some() {
            json["out"] = json!(self.out);
            text = text.replace(&self.request.out().display().to_string(), &self.out);
        }
        Ok((json.to_string(), text, report.interrupted))
    }
}

/// Trains as `lessen train` does with these arguments, on data in memory where it is given, with the processes of a
/// group, if there is one.
#[pyfunction]
pub fn train(
    py: Python<'_>,
    args: Vec<String>,
    data: Option<Given<'_>>,
    listener: &Bound<'_, PyAny>,
    joining: Option<Joining>,
) -> PyResult<Reported> {
    let data = data.map(in_memory).transpose();
    attended(py, listener, move |_| {
        together(joining, |group| Asked::of(&args, data, group)?.train())
    })
}

/// Memory and time of a training that is not begun: as JSON, as text and as a page, and the error of a budget that is
/// too small.
#[pyfunction]
pub fn plan(
    py: Python<'_>,
    args: Vec<String>,
    data: Option<Given<'_>>,
    sweep: bool,
    batches: Vec<usize>,
) -> PyResult<(String, String, String, Option<String>)> {
    let data = data.map(in_memory).transpose().map_err(|error| raised(py, &error))?;
    released(py, move || {
        let (request, device) = command::training(&args)?;
        let request = match data {
            Some(data) => request.with_data(data),
            None => request,
        };
        let forecast = Forecast::of_request(
            &request,
            &Additions {
                sweep,
                batches,
                sharing: None,
            },
            &device,
        )?;
        let shortfall = forecast.shortfall().map(|error| error.to_string());
        Ok((
            forecast.to_json().to_string(),
            forecast.to_text(),
            forecast.to_html(),
            shortfall,
        ))
    })
}

/// What a command prints with these arguments, and whether a job of it was stopped.
#[pyfunction]
pub fn answer(py: Python<'_>, args: Vec<String>, listener: &Bound<'_, PyAny>) -> PyResult<(String, bool)> {
    attended(py, listener, move |watcher| {
        let answer = command::answer(&args, watcher)?;
        Ok((answer.text, answer.code != 0))
    })
}

/// The content of a split of this kind.
macro_rules! of_kind {
    ($kind:ident) => {
        |part| match part {
            DataPart::$kind(own) => Some(own),
            _ => None,
        }
    };
}

/// Data in memory for a job.
///
/// # Errors
/// Splits of several kinds, and weights of examples that have none.
pub fn in_memory((train, dev, test, classes, weights): Given<'_>) -> Result<DataInMemory> {
    let others = [dev.map(part).transpose()?, test.map(part).transpose()?];
    let weights = weights.map(|weights| weights.as_array().iter().copied().collect());
    let more = (classes, weights);
    let data = match part(train)? {
        DataPart::Table(train) => DataInMemory::Table(splits(train, others, more, of_kind!(Table))?),
        DataPart::Sentences(train) => DataInMemory::Sentences(splits(train, others, more, of_kind!(Sentences))?),
        DataPart::Texts(train) => DataInMemory::Texts(splits(train, others, more, of_kind!(Texts))?),
        DataPart::Images(train) => DataInMemory::Images(splits(train, others, more, of_kind!(Images))?),
    };
    match &data {
        DataInMemory::Sentences(Splits { weights: Some(_), .. })
        | DataInMemory::Texts(Splits { weights: Some(_), .. }) => {
            let sentence = format!("{} have no weights; leave out sample_weight", data.word());
            Err(Error::user(sentence))
        }
        _ => Ok(data),
    }
}

/// A split in the types of Lessen.
enum DataPart {
    Table(TableInMemory),
    Sentences(Arc<[TaggedWords]>),
    Texts(Vec<Arc<str>>),
    Images(ImagesInMemory),
}

fn part(split: Split<'_>) -> Result<DataPart> {
    Ok(match split {
        Split::Table(columns) => {
            let columns = columns.into_iter().map(|(name, column)| {
                let values = match column {
                    Column::Numbers(numbers) => ColumnValues::Numbers(numbers.as_array().to_vec()),
                    Column::Texts(texts) => ColumnValues::Texts(texts),
                    Column::Lists(lists) => ColumnValues::Lists(lists),
                };
                (name, values)
            });
            DataPart::Table(TableInMemory::new(columns.collect())?)
        }
        Split::Sentences(sentences) => {
            let tagged = sentences
                .into_iter()
                .map(|(words, labels)| TaggedWords { words, labels });
            DataPart::Sentences(tagged.collect())
        }
        Split::Texts(texts) => DataPart::Texts(texts.into_iter().map(Arc::from).collect()),
        Split::Array((shape, bytes, labels)) => {
            let bytes = bytes.as_array().to_vec();
            DataPart::Images(ImagesInMemory::of_array(&shape, bytes, labels.into())?)
        }
        Split::Images((images, labels)) => {
            let image = |pixels: PyReadonlyArray3<'_, u8>| {
                let shape = pixels.shape();
                Image::new(
                    [shape[0], shape[1], shape[2]],
                    pixels.as_array().iter().copied().collect(),
                )
            };
            DataPart::Images(ImagesInMemory::of_images(
                images.into_iter().map(image).collect(),
                labels.into(),
            )?)
        }
    })
}

impl From<Labels> for ImageLabels {
    fn from(labels: Labels) -> ImageLabels {
        match labels {
            Labels::Numbers(numbers) => ImageLabels::Numbers(numbers),
            Labels::Names(names) => ImageLabels::Names(names),
        }
    }
}

/// The splits of data whose parts are all of one kind.
fn splits<T>(
    train: T,
    [dev, test]: [Option<DataPart>; 2],
    (classes, weights): (Option<Vec<String>>, Option<Arc<[f32]>>),
    take: impl Fn(DataPart) -> Option<T>,
) -> Result<Splits<T>> {
    let some = |part: Option<DataPart>| {
        let found = part.map(|part| {
            take(part)
                .ok_or_else(|| Error::user("the splits of the data are of several kinds; give them the same kind"))
        });
        found.transpose()
    };
    Ok(Splits {
        train,
        dev: some(dev)?,
        test: some(test)?,
        classes,
        weights,
    })
}
