//! `lessen eval`

use super::device_args::DeviceArgs;
use super::model_args::ModelArgs;
use super::precision_args::PrecisionArgs;
use crate::say;
use clap::Args;
use lessen_data::{ClassScores, Confusion, LabelCounts};
use lessen_run::Result;
use lessen_run::lengths::Length;
use lessen_run::saved_run::SavedRun;
use lessen_run::task::evaluation::{Scores, class_json};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// The most classes whose confusion matrix is shown to people.
const MOST_SHOWN: usize = 16;

/// Flags of `lessen eval`.
#[derive(Args)]
pub struct Eval {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    precision: PrecisionArgs,
    /// Other data than the run's
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Split to score
    #[arg(long, value_name = "NAME", default_value = "dev")]
    split: String,
    /// Windows of other lengths than in training: tokens, or multiples such as 2x,4x; for language models on texts
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',', allow_hyphen_values = true)]
    length: Vec<String>,
    /// Another value for train.batch or a key of data, such as data.format=glue; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Eval {
    /// Evaluates; the exit code.
    pub fn run(self) -> Result<u8> {
        let backend = || self.device.open();
        let lengths: Vec<Length> = self
            .length
            .iter()
            .map(|length| Length::parse(length))
            .collect::<Result<_>>()?;
        let mut run = self.model.open(&backend)?;
        run.set(&self.set)?;
        self.precision.set_and_warn(&mut run)?;
        if !lengths.is_empty() {
            return self.at(&run, &lengths);
        }
        let scores = run.evaluate(self.data.as_deref(), &self.split)?;
        let source = run.source().display().to_string();
        if self.json {
            let mut object = self.to_json(&scores);
            object.insert("split".into(), json!(self.split));
            object.insert("model".into(), json!(source));
            say(&format!("{}\n", Value::Object(object)));
        } else {
            let classes = scores.confusion.as_ref().map(show_classes);
            let classes = classes.or_else(|| scores.labels.as_ref().map(show_labels));
            say(&format!(
                "{source} on {} examples of {}: {}\n{}",
                scores.examples,
                self.split,
                scores.show(),
                classes.unwrap_or_default()
            ));
        }
        Ok(0)
    }

    /// Evaluates at these lengths; the exit code.
    fn at(&self, run: &SavedRun<'_>, lengths: &[Length]) -> Result<u8> {
        let source = run.source().display().to_string();
        let mut text = format!(
            "{source} on {}, by the tokens of a window (1x in training)\n",
            self.split
        );
        let mut found = Vec::new();
        for length in lengths {
            let (tokens, scores) = run.evaluate_at(self.data.as_deref(), &self.split, *length)?;
            let times = tokens as f64 / run.trained_length() as f64;
            let shown = format!("{times}x");
            text += &format!("{tokens:>8} {shown:>8}  {}\n", scores.show());
            let mut object = self.to_json(&scores);
            object.insert("length".into(), json!(tokens));
            object.insert("times".into(), json!(times));
            found.push(Value::Object(object));
        }
        say(&match self.json {
            true => format!(
                "{}\n",
                json!({ "split": self.split, "model": source, "lengths": found })
            ),
            false => text,
        });
        Ok(0)
    }

    fn to_json(&self, scores: &Scores) -> Map<String, Value> {
        let mut object = scores.to_json(&self.split);
        object.insert("examples".into(), json!(scores.examples));
        let each = |names: &[String], classes: &mut dyn Iterator<Item = ClassScores>| -> Value {
            names
                .iter()
                .zip(classes)
                .map(|(name, class)| class_json(name, class))
                .collect()
        };
        if let Some(labels) = &scores.labels {
            object.insert("classes".into(), each(labels.names(), &mut labels.classes()));
            object.insert("micro".into(), class_json("micro", labels.micro()));
            object.insert("mean".into(), class_json("mean", labels.mean()));
            object.insert(
                "weighted_mean".into(),
                class_json("weighted mean", labels.weighted_mean()),
            );
        }
        if let Some(confusion) = &scores.confusion {
            object.insert("classes".into(), each(confusion.names(), &mut confusion.classes()));
            object.insert("mean".into(), class_json("mean", confusion.mean()));
            object.insert(
                "weighted_mean".into(),
                class_json("weighted mean", confusion.weighted_mean()),
            );
            object.insert("confusion".into(), confusion.rows().map(|row| json!(row)).collect());
        }
        object
    }
}

/// The width of a column with names of classes.
fn width(names: &[String], least: usize) -> usize {
    names.iter().map(|name| name.chars().count()).fold(least, usize::max)
}

/// A table of the classes' scores and of means over them, its first column so wide.
fn table<'a>(first: usize, rows: impl Iterator<Item = (&'a str, ClassScores)>) -> String {
    let heads = ["precision", "recall", "f1", "support"];
    let mut text = format!("\n{:<first$}", "class");
    heads.iter().for_each(|head| text += &format!("  {head:>9}"));
    for (name, class) in rows {
        let ClassScores {
            precision,
            recall,
            f1,
            support,
        } = class;
        text += &format!("\n{name:<first$}  {precision:>9.4}  {recall:>9.4}  {f1:>9.4}  {support:>9}");
    }
    text
}

/// A table of the labels' scores.
fn show_labels(labels: &LabelCounts) -> String {
    let means = [
        ("micro", labels.micro()),
        ("mean", labels.mean()),
        ("weighted mean", labels.weighted_mean()),
    ];
    let classes = labels.names().iter().map(String::as_str).zip(labels.classes());
    table(width(labels.names(), means[2].0.len()), classes.chain(means)) + "\n"
}

/// A table of the classes' scores, and the confusion matrix.
fn show_classes(confusion: &Confusion) -> String {
    let names = confusion.names();
    let corner = "class \\ answer";
    let first = width(names, corner.len());
    let means = [("mean", confusion.mean()), ("weighted mean", confusion.weighted_mean())];
    let classes = names.iter().map(String::as_str).zip(confusion.classes());
    let mut text = table(first, classes.chain(means));
    if names.len() > MOST_SHOWN {
        return format!(
            "{text}\n\nthe confusion matrix of {} classes is in --json\n",
            names.len()
        );
    }
    let column = width(names, 6);
    text += &format!("\n\n{corner:<first$}");
    names.iter().for_each(|name| text += &format!("  {name:>column$}"));
    for (name, row) in names.iter().zip(confusion.rows()) {
        text += &format!("\n{name:<first$}");
        row.iter().for_each(|count| text += &format!("  {count:>column$}"));
    }
    text + "\n"
}
