//! Rows that are probably labelled wrong: each half of the training rows is answered by a linear model that has learned
//! the other half, and rows are told of which the model is sure that another class is right.

use super::errors::cut;
use super::progress::{CHOICE, Progress};
use super::request::LINEAR;
use super::settling::read;
use crate::training::{Request, train};
use lessen_base::atomic::{unwritable, write_with};
use lessen_base::watcher::quietly;
use lessen_base::{Error, Result};
use lessen_saved::saved_run::judged::Known;
use lessen_saved::saved_run::{AdapterOptions, SavedRun};
use lessen_task::CheckedTask;
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_task::goal::logits::softmax;
use lessen_task::recipe::value::SettingValue;
use lessen_task::shared_data::SharedData;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the two halves and their models, which is removed at the end.
const FOLDER: &str = ".halves";

/// Training rows above which no halves are learned.
const MOST_ROWS: u64 = 50_000;

/// Training rows below which halves teach too little.
const LEAST_ROWS: u64 = 200;

/// Training rows of a class, in the mean, below which halves teach too little of it.
const LEAST_OF_CLASS: u64 = 8;

/// The probability of another class from which on a label is doubted.
const SURE: f64 = 0.9;

/// Rows that are told.
const SHOWN: usize = 5;

/// Rows that are probably labelled wrong, a line each under a headline; nothing where there are none, and for data
/// without texts and classes.
///
/// # Errors
/// A folder that cannot be written to, and data that cannot be read any more.
pub(super) fn doubtful(
    out: &Path,
    progress: &Progress,
    task: &CheckedTask,
    new_backend: &NewBackend,
) -> Result<Vec<String>> {
    let names = task.goal().class_names();
    let corpus = task.data()?.corpus();
    let counts = corpus.class_counts(names.len()).unwrap_or_default();
    let rows: u64 = counts.iter().sum();
    // A class of one row is in no half.
    let in_halves = counts.iter().filter(|count| **count > 1).count() as u64;
    let Some(linear) = progress.settings_of(LINEAR) else {
        return Ok(Vec::new());
    };
    if in_halves < 2 || rows < LEAST_OF_CLASS * in_halves {
        return Ok(Vec::new());
    }
    if !(LEAST_ROWS..=MOST_ROWS).contains(&rows) || corpus.labelled_texts("train")?.is_none() {
        return Ok(Vec::new());
    }
    let folder = out.join(FOLDER);
    remove(&folder)?;
    fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
    let halves = [folder.join("0.jsonl"), folder.join("1.jsonl")];
    // The halves lack the column by which rows were held out.
    let is_of_halves = |line: &&str| !["group_by = ", "time_by = "].iter().any(|key| line.starts_with(key));
    let linear: String = linear
        .lines()
        .filter(is_of_halves)
        .map(|line| format!("{line}\n"))
        .collect();
    let shown = write_halves(&halves, task)?;
    let mut found: Vec<(f64, usize, usize)> = Vec::new();
    for (number, own) in halves.iter().enumerate() {
        let model = folder.join(format!("model-{number}"));
        let mut settings = read(&linear, &out.join(CHOICE))?;
        let mut set = |key: &str, value: SettingValue| settings.set_named(key, value, "the halves".to_string());
        set("data.path", SettingValue::of_path(own)?)?;
        set("data.dev", SettingValue::of_path(&halves[1 - number])?)?;
        for (key, column) in [
            ("data.text", "text"),
            ("data.text_pair", "text_pair"),
            ("data.label", "label"),
        ] {
            if key != "data.text_pair" || task.config().data.text_pair.is_some() || shown.has_pairs {
                set(key, SettingValue::Text(column.to_string()))?;
            }
        }
        let steps = match settings.get("train.steps") {
            Some(SettingValue::Count(steps)) => (steps / 2).max(1),
            _ => return Err(Error::internal("a linear model without a number of steps")),
        };
        settings.set_named("train.steps", SettingValue::Count(steps), "the halves".to_string())?;
        let shared = SharedData::silent();
        let asked = Request::new(settings, model.clone()).on(&shared);
        let report = quietly(|| train(&asked, new_backend))?;
        if report.interrupted {
            break;
        }
        let run = SavedRun::open(&model, WhichModel::Last, AdapterOptions::default(), new_backend)?;
        let (answers, half) = run.judge("dev", &shared)?;
        for judged in answers {
            let Known::Class(label) = judged.known else { continue };
            let shares = softmax(&judged.logits);
            let best = (0..shares.len()).rev().max_by(|a, b| shares[*a].total_cmp(&shares[*b]));
            let Some(best) = best.filter(|best| *best != label && shares[*best] >= SURE) else {
                continue;
            };
            let class = |class: usize| {
                half.goal()
                    .class_names()
                    .get(class)
                    .and_then(|name| index_of(names, name))
            };
            let row = shown.rows[1 - number].get(judged.example).copied();
            if let (Some(row), Some(best)) = (row, class(best)) {
                found.push((shares[label], row, best));
            }
        }
    }
    remove(&folder)?;
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let count = found.len();
    found.truncate(SHOWN);
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let places: Vec<usize> = found.iter().map(|(_, row, _)| *row).collect();
    let texts = corpus.show("train", &places)?;
    let labels = corpus.labelled_texts("train")?.map_or_else(Vec::new, |all| {
        all.map(|row| row.map_or(0, |(_, label)| label)).collect::<Vec<i32>>()
    });
    let mut lines = vec![format!(
        "{count} training rows may be labelled wrong (models that have not seen them are at least {:.0} % sure):",
        100.0 * SURE
    )];
    for ((_, row, best), text) in found.iter().zip(texts) {
        let label = labels
            .get(*row)
            .and_then(|label| names.get(usize::try_from(*label).ok()?));
        let label = label.map_or("?", String::as_str);
        lines.push(format!("  labelled {label}, perhaps {}: {}", names[*best], cut(&text)));
    }
    Ok(lines)
}

fn index_of(names: &[String], name: &str) -> Option<usize> {
    names.iter().position(|own| own == name)
}

/// The numbers of the training rows in each half, and whether they are pairs.
struct Halves {
    rows: [Vec<usize>; 2],
    has_pairs: bool,
}

/// Writes the training rows into two files, the rows of each class in turns.
fn write_halves(halves: &[PathBuf; 2], task: &CheckedTask) -> Result<Halves> {
    let names = task.goal().class_names();
    let corpus = task.data()?.corpus();
    let counts = corpus.class_counts(names.len()).unwrap_or_default();
    let (mut rows, mut texts) = ([Vec::new(), Vec::new()], [String::new(), String::new()]);
    let mut turns = vec![0; names.len()];
    let mut has_pairs = false;
    for (number, row) in corpus.labelled_texts("train")?.into_iter().flatten().enumerate() {
        let ((text, second), label) = row?;
        let Some(class) = usize::try_from(label)
            .ok()
            .filter(|class| counts.get(*class).is_some_and(|count| *count > 1))
        else {
            continue;
        };
        let half = turns[class] % 2;
        turns[class] += 1;
        let mut object = json!({ "text": text, "label": names[class] });
        if let Some(second) = second {
            object["text_pair"] = json!(second);
            has_pairs = true;
        }
        texts[half].push_str(&format!("{object}\n"));
        rows[half].push(number);
    }
    for (path, text) in halves.iter().zip(&texts) {
        write_with(path, |out| out.write_all(text.as_bytes()))?;
    }
    Ok(Halves { rows, has_pairs })
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    }
    Ok(())
}
