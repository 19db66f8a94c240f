//! `lessen eval`

use super::asked_model::AskedModel;
use super::candidates;
use crate::{processes, say, tell};
use clap::Args;
use lessen_base::Result;
use lessen_comm::Group;
use lessen_saved::cut_texts::CutTexts;
use lessen_saved::lengths::Length;
use lessen_saved::saved_run::{Evaluation, SavedRun};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Flags of `lessen eval`.
#[derive(Args)]
pub struct Eval {
    #[command(flatten)]
    asked: AskedModel,
    /// Other data than the run's: a folder with splits, or a file, which is scored as a whole
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Split to score [default: dev]
    #[arg(long, value_name = "NAME")]
    split: Option<String>,
    /// Windows of other lengths than in training: tokens, or multiples such as 2x,4x; for language models on texts
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',', allow_hyphen_values = true)]
    length: Vec<String>,
    /// Another value for train.batch or a key of data, such as data.format=glue; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", add = candidates::assignments())]
    set: Vec<String>,
    /// Seconds without an answer after which a process of several that share the evaluation is given up [default: 120]
    #[arg(long, value_name = "SECONDS")]
    deadline: Option<f64>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
}

impl Eval {
    /// Evaluates, with the other processes that a launcher has started; the exit code.
    pub fn run(self) -> Result<u8> {
        processes::alone_or_together(self.deadline, |group| self.evaluate(group))
    }

    /// Evaluates with the processes of a group; the exit code.
    fn evaluate(&self, group: &Group) -> Result<u8> {
        let lengths: Vec<Length> = self
            .length
            .iter()
            .map(|length| Length::parse(length))
            .collect::<Result<_>>()?;
        let run = self.asked.open(&self.set)?.shared_by(group.clone());
        if !lengths.is_empty() {
            return self.at(&run, &lengths);
        }
        let evaluation = run.evaluate(self.data.as_deref(), self.split.as_deref())?;
        evaluation.remarks.iter().for_each(|remark| tell(remark));
        let (scores, scored) = (&evaluation.scores, &evaluation.scored);
        let source = self.asked.model.shown(run.source());
        let cut = run.cut_texts(scores);
        cut.into_iter().for_each(CutTexts::tell);
        if self.json {
            let mut object = to_json(&evaluation);
            object.insert("split".into(), json!(evaluation.split));
            object.insert("model".into(), json!(source));
            object.insert("cut_texts".into(), json!(cut.map(CutTexts::to_json)));
            say(&format!("{}\n", Value::Object(object)))?;
        } else {
            let classes = scores.table.as_ref().map(|table| table.to_text());
            say(&format!(
                "{source} on {} examples of {scored}: {}\n{}",
                scores.examples,
                scores.show(),
                classes.unwrap_or_default()
            ))?;
        }
        Ok(0)
    }

    /// Evaluates at these lengths; the exit code.
    fn at(&self, run: &SavedRun, lengths: &[Length]) -> Result<u8> {
        let source = self.asked.model.shown(run.source());
        let (mut text, mut found, mut split) = (String::new(), Vec::new(), String::new());
        for length in lengths {
            let (tokens, evaluation) = run.evaluate_at(self.data.as_deref(), self.split.as_deref(), *length)?;
            if found.is_empty() {
                evaluation.remarks.iter().for_each(|remark| tell(remark));
                let scored = &evaluation.scored;
                split.clone_from(&evaluation.split);
                text = format!("{source} on {scored}, by the tokens of a window (1x in training)\n");
            }
            let scores = &evaluation.scores;
            let times = tokens as f64 / run.trained_length() as f64;
            let shown = format!("{times}x");
            text += &format!("{tokens:>8} {shown:>8}  {}\n", scores.show());
            let mut object = to_json(&evaluation);
            object.insert("length".into(), json!(tokens));
            object.insert("times".into(), json!(times));
            found.push(Value::Object(object));
        }
        say(&if self.json {
            format!("{}\n", json!({ "split": split, "model": source, "lengths": found }))
        } else {
            text
        })?;
        Ok(0)
    }
}

/// The scores of an evaluation, and of what.
fn to_json(evaluation: &Evaluation) -> Map<String, Value> {
    let scores = &evaluation.scores;
    let mut object = scores.to_json(&evaluation.split);
    object.insert("examples".into(), json!(scores.examples));
    object.insert("whole".into(), json!(evaluation.is_whole));
    if let Some(table) = &scores.table {
        object.extend(table.to_json());
    }
    object
}
