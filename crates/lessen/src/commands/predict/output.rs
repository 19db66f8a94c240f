//! Answers as CSV or as JSON lines.

use lessen_base::atomic::write_with;
use lessen_data::TextPair;
use lessen_run::saved_run::Prediction;
use lessen_run::{Error, Result};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::Path;

/// The format of answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a line of names
    Csv,
    /// A JSON object on each line
    Jsonl,
}

impl Format {
    /// The format that the ending of a file names.
    pub fn of(path: Option<&Path>) -> Format {
        let ending = path.and_then(Path::extension).and_then(|ending| ending.to_str());
        match ending {
            Some("jsonl" | "json" | "ndjson") => Format::Jsonl,
            _ => Format::Csv,
        }
    }
}

/// How answers are written.
#[derive(Clone, Copy)]
pub struct OutputOptions<'a> {
    /// CSV or JSON lines.
    pub format: Format,
    /// Whether the probabilities of all classes are written.
    pub probabilities: bool,
    /// Whether texts are pairs.
    pub has_pairs: bool,
    /// Separator of several labels of a text in a CSV column.
    pub separator: &'a str,
}

/// A writer of answers.
pub struct Output<'a> {
    sink: Sink<'a>,
    form: OutputOptions<'a>,
    labels: &'a [String],
}

enum Sink<'a> {
    /// Rows, and whether the line of names is written.
    Csv(Box<csv::Writer<&'a mut dyn Write>>, bool),
    Jsonl(&'a mut dyn Write),
}

impl<'a> Output<'a> {
    /// Nothing yet; `labels` are the names of the classes.
    pub fn new(out: &'a mut dyn Write, form: OutputOptions<'a>, labels: &'a [String]) -> Output<'a> {
        let sink = match form.format {
            Format::Csv => Sink::Csv(Box::new(csv::Writer::from_writer(out)), false),
            Format::Jsonl => Sink::Jsonl(out),
        };
        Output { sink, form, labels }
    }

    /// Writes an answer.
    ///
    /// # Errors
    /// A place that cannot be written to.
    pub fn write(&mut self, text: &TextPair, prediction: &Prediction) -> Result<()> {
        let (form, labels) = (self.form, self.labels);
        checked(match &mut self.sink {
            Sink::Csv(out, is_begun) => {
                let (names, cells) = row(form, labels, text, prediction);
                let head = if std::mem::replace(is_begun, true) {
                    Ok(())
                } else {
                    out.write_record(&names)
                };
                head.and_then(|()| out.write_record(&cells)).map_err(io_error)
            }
            Sink::Jsonl(out) => writeln!(out, "{}", object(form, labels, text, prediction)),
        })
    }

    /// Writes buffered answers.
    ///
    /// # Errors
    /// A place that cannot be written to.
    pub fn finish(self) -> Result<()> {
        checked(match self.sink {
            Sink::Csv(mut out, _) => out.flush(),
            Sink::Jsonl(out) => out.flush(),
        })
    }
}

/// The names of the columns, and their cells.
fn row(
    form: OutputOptions<'_>,
    labels: &[String],
    (text, second): &TextPair,
    prediction: &Prediction,
) -> (Vec<String>, Vec<String>) {
    let mut columns = vec![("text".to_string(), text.clone())];
    let mut add = |name: &str, cell: String| columns.push((name.to_string(), cell));
    if form.has_pairs {
        add("text_pair", second.clone().unwrap_or_default());
    }
    match prediction {
        Prediction::Class(class, shares) => {
            add("label", labels[*class].clone());
            add("probability", format!("{:.6}", shares[*class]));
            if form.probabilities {
                let named = labels.iter().zip(shares);
                named.for_each(|(label, share)| add(&format!("probability_{label}"), format!("{share:.6}")));
            }
        }
        Prediction::Labels(found, shares) => {
            let joined = |of: &dyn Fn(usize) -> String| -> String {
                let items: Vec<String> = found.iter().map(|class| of(*class)).collect();
                items.join(form.separator)
            };
            add("labels", joined(&|class| labels[class].clone()));
            add("probability", joined(&|class| format!("{:.6}", shares[class])));
            if form.probabilities {
                let named = labels.iter().zip(shares);
                named.for_each(|(label, share)| add(&format!("probability_{label}"), format!("{share:.6}")));
            }
        }
        Prediction::Score(score) => add("score", format!("{score:.6}")),
        Prediction::Sum(sum) => add("answer", sum.clone()),
    }
    columns.into_iter().unzip()
}

/// A line of JSON.
fn object(form: OutputOptions<'_>, labels: &[String], (text, second): &TextPair, prediction: &Prediction) -> Value {
    let mut object = Map::new();
    let mut add = |name: &str, value: Value| drop(object.insert(name.to_string(), value));
    add("text", json!(text));
    if form.has_pairs {
        add("text_pair", json!(second));
    }
    match prediction {
        Prediction::Class(class, shares) => {
            add("label", json!(labels[*class]));
            add("probability", json!(shares[*class]));
            if form.probabilities {
                add("probabilities", by_name(labels, shares));
            }
        }
        Prediction::Labels(found, shares) => {
            add("labels", found.iter().map(|class| json!(labels[*class])).collect());
            add("probability", found.iter().map(|class| json!(shares[*class])).collect());
            if form.probabilities {
                add("probabilities", by_name(labels, shares));
            }
        }
        Prediction::Score(score) => add("score", json!(score)),
        Prediction::Sum(sum) => add("answer", json!(sum)),
    }
    Value::Object(object)
}

/// Probabilities by the names of their classes.
pub fn by_name(labels: &[String], shares: &[f64]) -> Value {
    labels
        .iter()
        .cloned()
        .zip(shares.iter().map(|share| json!(share)))
        .collect()
}

/// Writes a file atomically through `fill`, whose error comes first.
///
/// # Errors
/// The error of `fill`; a folder that cannot be written to.
pub fn write_file(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    write_with(path, |out| fill(out).map_err(io::Error::other))
}

/// The result of writing answers.
///
/// # Errors
/// A place that cannot be written to.
pub fn checked(written: io::Result<()>) -> Result<()> {
    written.map_err(|error| Error::user(format!("the answers cannot be written ({error}); check the disk")))
}

/// The error of the writer below a writer of CSV.
pub fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        kind => io::Error::other(format!("{kind:?}")),
    }
}
