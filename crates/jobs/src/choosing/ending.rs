//! The end of a choice: candidates are judged on the examples that were held out, and the best is the result.

use super::advice::{advice, verdict};
use super::doubtful::doubtful;
use super::errors::worst;
use super::progress::{CHOICE, Progress};
use super::request::LINEAR;
use super::scoreboard::{self, Entry};
use super::settling::read;
use lessen_base::{Error, Result};
use lessen_nn::Task;
use lessen_saved::saved_run::judged::{Judged, Known};
use lessen_saved::saved_run::{AdapterOptions, SavedRun};
use lessen_task::CheckedTask;
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_task::shared_data::SharedData;
use serde_json::{Value, json};
use std::path::Path;

/// The split by which candidates are judged.
const SPLIT: &str = "dev";

/// Judges candidates; the name of the best one, and what there is to tell. Of equal ones the first is the best.
///
/// # Errors
/// A candidate that cannot be read, and numbers that are NaN or infinite.
pub(super) fn judge(
    out: &Path,
    progress: &Progress,
    names: &[String],
    shared: &SharedData,
    new_backend: &NewBackend,
) -> Result<(String, Value)> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut best: Option<(usize, Vec<Judged>, CheckedTask)> = None;
    for (number, name) in names.iter().enumerate() {
        let run = SavedRun::open(
            &out.join(name),
            WhichModel::Last,
            AdapterOptions::default(),
            new_backend,
        )?;
        let (answers, task) = match run.task() {
            Task::TokenClassification { .. } | Task::LanguageModelling => {
                return judged_by_tokens(&run, name, starts(progress, out)?);
            }
            _ => run.judge(SPLIT, shared)?,
        };
        let entry = scoreboard::of_answers(name, &answers);
        let is_better = best
            .as_ref()
            .is_none_or(|(before, ..)| entry.gain() > entries[*before].gain());
        entries.push(entry);
        if is_better {
            best = Some((number, answers, task));
        }
    }
    let (best, answers, task) = best.ok_or_else(|| Error::internal("a choice without candidates"))?;
    let guess = scoreboard::of_guess(&answers, majority(&task)?, mean(&task)?);
    let winner = names[best].clone();
    let verdict = verdict(&guess, &entries, best);
    let doubtful = doubtful(out, progress, &task, new_backend)?;
    let errors = worst(&answers, &task, SPLIT)?;
    let can_start = task.model().image().is_none() && !starts(progress, out)?;
    let advice = advice(&guess, &entries[best], winner == LINEAR, can_start);
    let mut table = vec![format!(
        "on {} examples that were held out (with the interval of 95 %):",
        answers.len()
    )];
    let all: Vec<Entry> = [vec![guess], entries].concat();
    table.extend(scoreboard::to_text(&all));
    let result = json!({
        "scores": all.iter().map(Entry::to_json).collect::<Vec<Value>>(),
        "examples": answers.len(),
        "table": table,
        "verdict": verdict,
        "errors": errors,
        "doubtful": doubtful,
        "advice": advice,
        "commands": commands(&task, &answers),
    });
    Ok((winner, result))
}

/// Whether a candidate starts from a pretrained model.
fn starts(progress: &Progress, out: &Path) -> Result<bool> {
    for settled in &progress.settled {
        let settings = read(&settled.settings, &out.join(CHOICE))?;
        if settings.text("model.init").is_some_and(|init| !init.is_empty()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Judges the only candidate for data whose examples have no answer as a whole: words with classes, texts alone.
fn judged_by_tokens(run: &SavedRun, name: &str, has_started: bool) -> Result<(String, Value)> {
    let scores = run.evaluate(None, Some(SPLIT))?.scores;
    let entry = scoreboard::of_scores(name, &scores);
    let mut table = vec![format!("on {} examples that were held out:", scores.examples)];
    if let Some(majority) = scores.majority {
        table.push(format!("  most frequent class  accuracy {:.1} %", 100.0 * majority));
    }
    table.push(format!("  {name}  {}", scores.show()));
    let is_of_words = matches!(run.task(), Task::TokenClassification { .. });
    let commands = match is_of_words {
        true => ["lessen predict RUN --text \"...\"", "lessen eval RUN --data FOLDER"],
        false => ["lessen generate RUN --prompt \"...\"", "lessen serve RUN"],
    };
    let advice = match has_started {
        true => "what would help most: more text, or more --minutes",
        false => "what would help most: --init with the folder of a pretrained model",
    };
    let result = json!({
        "scores": [entry.to_json()],
        "examples": scores.examples,
        "table": table,
        "verdict": scores.nothing_learned().into_iter().collect::<Vec<String>>(),
        "errors": [],
        "doubtful": [],
        "advice": [advice],
        "commands": commands,
    });
    Ok((name.to_string(), result))
}

/// The most frequent class of the training data; none where there are no classes.
fn majority(task: &CheckedTask) -> Result<Option<usize>> {
    let classes = task.goal().class_names().len();
    let counts = task.data()?.corpus().class_counts(classes);
    Ok(counts.and_then(|counts| (0..counts.len()).rev().max_by_key(|class| counts[*class])))
}

/// The mean of the training numbers, as the model learned them; 0 where there are none.
fn mean(task: &CheckedTask) -> Result<f64> {
    Ok(task.data()?.corpus().mean_target().unwrap_or(0.0))
}

/// Commands that use the result; `RUN` stands for its folder.
fn commands(task: &CheckedTask, answers: &[Judged]) -> Vec<&'static str> {
    let reads_texts = task.model().image().is_none();
    let has_classes = matches!(answers.first().map(|judged| &judged.known), Some(Known::Class(_)));
    let mut all = Vec::new();
    if reads_texts {
        all.push("lessen predict RUN --text \"...\"");
        all.push("lessen serve RUN");
    }
    if !reads_texts && has_classes && !task.config().data.format.format().is_of_tables() {
        all.push("lessen predict RUN --image FILE.png");
    } else {
        all.push("lessen predict RUN --input FILE.csv --output ANSWERS.csv");
    }
    all.push("lessen eval RUN --data FILE");
    all
}
