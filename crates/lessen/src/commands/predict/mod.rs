//! `lessen predict`

mod answer_format;
mod answers;
mod asking;
mod glue;
mod input;
mod output;
mod records;
mod rows;
mod stream;
mod tags;

use self::answer_format::{AnswerFormat, chosen};
use self::asking::{AnswerOptions, Asking};
use self::input::{Input, InputOptions, LineColumns};
use self::output::{Fields, Format};
use self::records::Records;
use self::stream::LineOptions;
use super::asked_model::AskedModel;
use super::candidates;
use crate::{processes, say, stdout, tell};
use clap::Args;
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_nn::Task;
use lessen_saved::saved_run::{Answer, ImageInput, Prediction, SavedRun, split_pair};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Flags of `lessen predict`.
#[derive(Args)]
pub struct Predict {
    #[command(flatten)]
    asked: AskedModel,
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
    /// Format of the answers to --input [default: that of the ending of --output, else csv; squad for a file of SQuAD].
    /// Columns of a table stay as they are, and the answers stand after them
    #[arg(long, value_name = "FORMAT", requires = "input")]
    format: Option<AnswerFormat>,
    /// Write the probabilities of all classes
    #[arg(long, conflicts_with_all = ["text", "image", "glue"])]
    probabilities: bool,
    /// Texts or images that the model computes together; short for --set train.batch=N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// Another value for train.batch, data.max_length, data.text, data.text_pair or data.threshold; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", add = candidates::assignments())]
    set: Vec<String>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long, conflicts_with_all = ["input", "glue", "stream"])]
    json: bool,
}

/// The input of a prediction.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Subject {
    /// The text; for tasks on two texts, both with a tab between; for questions, see --question; for models of tables
    /// a row as an object of JSON
    #[arg(long, allow_hyphen_values = true, conflicts_with = "output")]
    text: Option<String>,
    /// File with a text on each line, or with named columns (.csv, .tsv, .jsonl); - is stdin; for questions also a file
    /// of SQuAD (.json), for classes of words also one with a word on each line
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    input: Option<PathBuf>,
    /// Answer each line of stdin at once, with a JSON object: a line is a text, or an object with a text, whose other
    /// fields stay; one that cannot be answered gets an object with its number and an error
    #[arg(long, conflicts_with = "output")]
    stream: bool,
    /// PNG and JPEG files, one or more; for models of images
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["output", "pairs"])]
    image: Vec<PathBuf>,
    /// Folder of a task of GLUE with its test files, to be answered as its server wants it
    #[arg(long, value_name = "DIR", requires = "output")]
    glue: Option<PathBuf>,
}

impl Predict {
    /// Asks the model, with the other processes that a launcher has started; the exit code.
    pub fn run(self) -> Result<u8> {
        processes::alone_or_together(None, |group| self.ask(group))
    }

    /// Asks the model with the processes of a group; the exit code.
    fn ask(&self, group: &Group) -> Result<u8> {
        let reads_stdin = self.what.stream || self.what.input.as_deref() == Some(Path::new("-"));
        if group.size() > 1 && (reads_stdin || self.what.glue.is_some()) {
            return Err(Error::user(
                "several processes answer a file (--input FILE), texts or images, and neither stdin nor --glue; start this \
                 command without the launcher",
            ));
        }
        if self.what.glue.is_none() {
            self.answer_format()?;
            let read: Vec<PathBuf> = self.what.input.iter().cloned().collect();
            self.output
                .as_deref()
                .map_or(Ok(()), |out| self.asked.model.check_output(out, &read))?;
        }
        let mut run = self.asked.open(&self.set)?.shared_by(group.clone());
        if let Some(batch) = self.batch {
            run.set(&[format!("train.batch={batch}")])?;
        }
        if !self.what.image.is_empty() {
            return self.images(&run).map(|()| 0);
        }
        if self.what.stream {
            return self.stream(&run).map(|()| 0);
        }
        if run.reads_tables() {
            return rows::predict(self, &run).map(|()| 0);
        }
        match run.task() {
            Task::QuestionAnswering => return answers::predict(self, &run).map(|()| 0),
            _ if self.question.is_some() => {
                return Err(Error::user(
                    "--question is for models that find answers in texts, and this is none; leave it out",
                ));
            }
            Task::TokenClassification { .. } => return tags::predict(self, &run).map(|()| 0),
            _ => {}
        }
        match (&self.what.text, &self.what.input, &self.what.glue) {
            (Some(text), ..) => self.one(&run, text)?,
            (_, Some(input), _) => self.many(&run, input)?,
            (.., Some(dir)) => {
                let check = |out: &Path| self.asked.model.check_output(out, std::slice::from_ref(dir));
                glue::answer(&run, dir, self.output.as_deref().unwrap_or(Path::new(".")), &check)?;
            }
            (None, None, None) => {}
        }
        Ok(0)
    }

    /// The format of answers to many texts, if a flag or the ending of a file says it.
    ///
    /// # Errors
    /// A file whose ending names another format.
    fn answer_format(&self) -> Result<Option<AnswerFormat>> {
        chosen(self.format, self.output.as_deref())
    }

    /// Whether texts are pairs, as far as that is known.
    fn has_pairs(&self, run: &SavedRun) -> Option<bool> {
        if self.pairs { Some(true) } else { run.has_pairs() }
    }

    /// Asks about one text.
    fn one(&self, run: &SavedRun, text: &str) -> Result<()> {
        if text.trim().is_empty() {
            return Err(Error::user(
                "the text is empty; give at least one character with --text",
            ));
        }
        let predictor = run.predictor()?;
        let answers = predictor.ask(&[split_pair(text, self.has_pairs(run) == Some(true))])?;
        let cut = predictor.cut_texts();
        cut.tell();
        for answer in answers {
            let Answer { prediction, is_blank } = answer.map_err(|error| error.at("--text"))?;
            if is_blank {
                tell("warning: the model knows no character of the text, so its answer says nothing of it");
            }
            let (text, mut object) = shown(run.labels(), prediction);
            object["cut_texts"] = cut.to_json();
            self.say_answer(&object, &text)?;
        }
        Ok(())
    }

    /// Prints an answer as an object or in words.
    fn say_answer(&self, object: &Value, words: &str) -> Result<()> {
        say(&if self.json {
            format!("{object}\n")
        } else {
            format!("{words}\n")
        })
    }

    /// Asks about the images of files.
    fn images(&self, run: &SavedRun) -> Result<()> {
        let files = &self.what.image;
        let images: Vec<ImageInput> = files.iter().cloned().map(ImageInput::File).collect();
        let predictions = run.image_predictor()?.ask(&images)?;
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
    fn many(&self, run: &SavedRun, input: &Path) -> Result<()> {
        let has_pairs = self.has_pairs(run);
        let options = InputOptions {
            columns: run.columns(),
            has_pairs,
            lines: LineColumns::of_texts(has_pairs == Some(true)),
        };
        let input = Input::open(input, options)?;
        let format = self.answer_format()?.map_or(Ok(Format::Csv), AnswerFormat::of_rows)?;
        self.write(|out| answer_all(run, input, self.options(run, format), out))
    }

    /// Answers lines of stdin as they come.
    fn stream(&self, run: &SavedRun) -> Result<()> {
        let (columns, has_pairs, lines) = match run.task() {
            Task::QuestionAnswering => {
                answers::refuse_probabilities(self)?;
                (run.columns_of_questions(), Some(true), LineColumns::of_questions())
            }
            Task::TokenClassification { .. } => (run.columns(), Some(false), LineColumns::of_texts(false)),
            _ => {
                let has_pairs = self.has_pairs(run);
                (run.columns(), has_pairs, LineColumns::of_texts(has_pairs == Some(true)))
            }
        };
        let options = LineOptions {
            columns,
            has_pairs,
            lines,
        };
        stream::answer(&mut Asking::new(run, self.options(run, Format::Jsonl))?, &options)
    }

    /// How answers to many texts are written.
    fn options<'a>(&self, run: &'a SavedRun, format: Format) -> AnswerOptions<'a> {
        AnswerOptions {
            format,
            probabilities: self.probabilities,
            separator: run.separator(),
        }
    }

    /// Writes through `fill` into the file of `--output`, or to stdout.
    ///
    /// # Errors
    /// The errors of `fill`; a place that cannot be written to.
    fn write(&self, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        match &self.output {
            Some(path) if !stdout::is_dropped() => output::write_file(path, fill),
            _ => stdout::write(fill),
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
fn answer_all(run: &SavedRun, mut input: Input, options: AnswerOptions<'_>, out: &mut dyn Write) -> Result<()> {
    let mut asking = Asking::new(run, options)?;
    let mut records = Records::new(out, options.format);
    loop {
        let found = input.next(asking.at_once())?;
        if found.texts.is_empty() {
            break;
        }
        let answers = asking.ask(&found.texts).map_err(|error| error.at(input.name()))?;
        let named = answers.into_iter().zip(&found.records);
        let named = named.map(|(answer, record)| answer.map_err(|error| error.at(input.place(record))));
        let answers: Vec<Fields> = named.collect::<Result<_>>()?;
        for (record, answer) in found.records.iter().zip(answers) {
            records
                .write(Some(record), answer)
                .map_err(|error| error.at(input.name()))?;
        }
    }
    input.finish();
    asking.tell();
    records.flush()
}
