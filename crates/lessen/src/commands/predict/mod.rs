//! `lessen predict`

mod answer_format;
mod answers;
mod glue;
mod input;
mod output;
mod records;
mod tags;

use self::answer_format::AnswerFormat;
use self::input::Input;
use self::output::{Format, Output};
use super::device_args::DeviceArgs;
use super::model_args::ModelArgs;
use super::precision_args::PrecisionArgs;
use crate::{say, stdout, tell};
use clap::Args;
use lessen_nn::Task;
use lessen_run::saved_run::{Answer, Prediction, SavedRun, split_pair};
use lessen_run::{Error, Result};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Flags of `lessen predict`.
#[derive(Args)]
pub struct Predict {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    precision: PrecisionArgs,
    #[command(flatten)]
    what: Subject,
    /// Each text is a pair with a tab between, also where the run's data says nothing of it
    #[arg(long, conflicts_with = "glue")]
    pairs: bool,
    /// The question about --text; for models that find answers
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, requires = "text")]
    question: Option<String>,
    /// File to write to instead of stdout; with --glue, the folder for the files
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Format of the answers to --input [default: that of the ending of --output, else csv; squad for a file of SQuAD]
    #[arg(long, value_name = "FORMAT", requires = "input")]
    format: Option<AnswerFormat>,
    /// Write the probabilities of all classes
    #[arg(long, requires = "input")]
    probabilities: bool,
    /// Another value for train.batch, data.max_length, data.text, data.text_pair or data.threshold; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long, conflicts_with_all = ["input", "glue"])]
    json: bool,
}

/// The input of a prediction.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Subject {
    /// The text; for tasks on two texts, both with a tab between; for questions, see --question
    #[arg(long, allow_hyphen_values = true, conflicts_with = "output")]
    text: Option<String>,
    /// File with a text on each line, or with named columns (.csv, .tsv, .jsonl); - is stdin; for questions also a file
    /// of SQuAD (.json), for classes of words also one with a word on each line
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    input: Option<PathBuf>,
    /// PNG and JPEG files, one or more; for models of images
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["output", "pairs"])]
    image: Vec<PathBuf>,
    /// Folder of a task of GLUE with its test files, to be answered as its server wants it
    #[arg(long, value_name = "DIR", requires = "output")]
    glue: Option<PathBuf>,
}

impl Predict {
    /// Asks the model; the exit code.
    pub fn run(self) -> Result<u8> {
        let backend = || self.device.open();
        let mut run = self.model.open(&backend)?;
        run.set(&self.set)?;
        self.precision.set_and_warn(&mut run)?;
        if !self.what.image.is_empty() {
            return self.images(&run).map(|()| 0);
        }
        match run.task() {
            Task::QuestionAnswering => return answers::predict(&self, &run).map(|()| 0),
            _ if self.question.is_some() => {
                return Err(Error::user(
                    "--question is for models that find answers in texts, and this is none; leave it out",
                ));
            }
            Task::TokenClassification { .. } => return tags::predict(&self, &run).map(|()| 0),
            _ => {}
        }
        match (&self.what.text, &self.what.input, &self.what.glue) {
            (Some(text), ..) => self.one(&run, text)?,
            (_, Some(input), _) => self.many(&run, input)?,
            (.., Some(dir)) => glue::answer(&run, dir, self.output.as_deref().unwrap_or(Path::new(".")))?,
            (None, None, None) => {}
        }
        Ok(0)
    }

    /// Whether texts are pairs, as far as that is known.
    fn has_pairs(&self, run: &SavedRun<'_>) -> Option<bool> {
        if self.pairs { Some(true) } else { run.has_pairs() }
    }

    /// Asks about one text.
    fn one(&self, run: &SavedRun<'_>, text: &str) -> Result<()> {
        if text.trim().is_empty() {
            return Err(Error::user(
                "the text is empty; give at least one character with --text",
            ));
        }
        let mut predictor = run.predictor()?;
        let answers = predictor.ask(&[split_pair(text, self.has_pairs(run) == Some(true))])?;
        let cut = predictor.cut_texts();
        cut.tell();
        for Answer { prediction, is_blank } in answers {
            if is_blank {
                tell("warning: the model knows no character of the text, so its answer says nothing of it");
            }
            let (text, mut object) = shown(run.labels(), prediction);
            object["cut_texts"] = cut.to_json();
            say(&if self.json {
                format!("{object}\n")
            } else {
                format!("{text}\n")
            })?;
        }
        Ok(())
    }

    /// Asks about the images of files.
    fn images(&self, run: &SavedRun<'_>) -> Result<()> {
        let files = &self.what.image;
        let predictions = run.image_predictor()?.ask(files)?;
        let (mut text, mut objects) = (String::new(), Vec::new());
        for (file, prediction) in files.iter().zip(predictions) {
            let (answer, mut object) = shown(run.labels(), prediction);
            text += &format!("{}: {answer}\n", file.display());
            object["file"] = json!(file.display().to_string());
            objects.push(object);
        }
        say(&if self.json {
            format!("{}\n", json!({ "images": objects }))
        } else {
            text
        })?;
        Ok(())
    }

    /// Asks about all lines of a file.
    fn many(&self, run: &SavedRun<'_>, input: &Path) -> Result<()> {
        let input = Input::open(input, &run.columns(), self.has_pairs(run))?;
        let form = output::OutputOptions {
            format: match self.format {
                Some(form) => form.of_rows()?,
                None => Format::of(self.output.as_deref()),
            },
            probabilities: self.probabilities,
            has_pairs: input.has_pairs(),
            separator: run.separator(),
        };
        self.write(|out| answer_all(run, input, form, out))
    }

    /// Writes through `fill` into the file of `--output`, or to stdout.
    ///
    /// # Errors
    /// The errors of `fill`; a place that cannot be written to.
    fn write(&self, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        match &self.output {
            Some(path) => output::write_file(path, fill),
            None => stdout::write(fill),
        }
    }
}

/// A prediction in words and as JSON; `names` are the names of the classes.
fn shown(names: &[String], prediction: Prediction) -> (String, Value) {
    match prediction {
        Prediction::Class(class, shares) => {
            let (label, share) = (&names[class], shares[class]);
            let all = output::by_name(names, &shares);
            let object = json!({ "label": label, "probability": share, "probabilities": all });
            (format!("{label} ({:.1} %)", 100.0 * share), object)
        }
        Prediction::Labels(found, shares) => {
            let label = |class: &usize| (&names[*class], shares[*class]);
            let all = output::by_name(names, &shares);
            let (labels, own): (Vec<&String>, Vec<f64>) = found.iter().map(label).unzip();
            let object = json!({ "labels": labels, "probability": own, "probabilities": all });
            let shown: Vec<String> = labels
                .iter()
                .zip(own)
                .map(|(label, share)| format!("{label} ({:.1} %)", 100.0 * share))
                .collect();
            let text = if shown.is_empty() {
                "no label".to_string()
            } else {
                shown.join(", ")
            };
            (text, object)
        }
        Prediction::Score(score) => (format!("{score:.4}"), json!({ "score": score })),
        Prediction::Sum(sum) => (sum.clone(), json!({ "answer": sum })),
    }
}

/// Writes the answers to all texts, in batches.
fn answer_all(
    run: &SavedRun<'_>,
    mut input: Input,
    form: output::OutputOptions<'_>,
    out: &mut dyn Write,
) -> Result<()> {
    let mut predictor = run.predictor()?;
    let mut output = Output::new(out, form, run.labels());
    let (mut blank, mut first) = (0, None);
    loop {
        let texts = input.next(predictor.at_once())?;
        if texts.is_empty() {
            break;
        }
        let before = input.count() - texts.len();
        let answers = predictor.ask(&texts).map_err(|error| error.at(input.name()))?;
        for (number, (text, answer)) in texts.iter().zip(&answers).enumerate() {
            if answer.is_blank {
                blank += 1;
                first.get_or_insert(before + number + 1);
            }
            output.write(text, &answer.prediction)?;
        }
    }
    input.finish();
    predictor.cut_texts().tell();
    if let Some(number) = first {
        tell(&format!(
            "warning: {blank} of {} texts are empty or have no character that the model knows, such as number {number}; the \
             answers to them say nothing",
            input.count()
        ));
    }
    output.finish()
}
