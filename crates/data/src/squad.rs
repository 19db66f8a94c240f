//! Questions about texts whose answers are parts of them, in the files of SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016,
//! 2018).
//!
//! A file is an object of JSON: articles in `data`; each has `paragraphs` with a `context` and its questions
//! `qas`: an `id`, the `question`, its `answers` (`text`, and `answer_start` in characters), and in version 2.0
//! `is_impossible` where the context has no answer.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::{Error, Result};
use serde::Deserialize;

use crate::files::{quoted, read_text};
use crate::folders::listed;
use crate::held_out;
use crate::places::files_of;
use crate::questions::{GivenAnswer, Question, Questions};
use crate::splits::split_of;

/// Questions with their splits.
#[derive(Clone, Debug, PartialEq)]
pub struct Squad {
    /// The training split.
    pub train: Arc<Questions>,
    /// The development split.
    pub dev: Arc<Questions>,
    /// Whether the development split is all of the data, as it has none of its own.
    pub is_whole: bool,
    /// The test split, if there is one.
    pub test: Option<Arc<Questions>>,
    /// What there is to say of how it was read, a sentence each.
    pub remarks: Vec<String>,
}

/// Places of the splits, and the share of questions held out where there is no validation split.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// File, or pattern for files, of the development split.
    pub dev: Option<PathBuf>,
    /// File, or pattern for files, of the test split.
    pub test: Option<PathBuf>,
    /// Share of the contexts that is kept for validation, with their questions.
    pub held_out: f64,
    /// Decides which contexts these are.
    pub held_out_seed: u64,
    /// Whether in place of a share all questions are the development split, where there is none.
    pub whole: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            dev: None,
            test: None,
            held_out: 0.1,
            held_out_seed: 1,
            whole: false,
        }
    }
}

impl Squad {
    /// Returns the split `train`, `dev` or `test`.
    ///
    /// # Errors
    /// An unknown name, or `test` without a test split.
    pub fn split(&self, name: &str) -> Result<&Arc<Questions>> {
        split_of(name, [&self.train, &self.dev], self.test.as_ref())
    }
}

/// Reads a file, files by a pattern, or a folder with a file for each split, whose names begin with `train`, `dev` (or
/// `valid`, `val`) and `test`. Without a development split, a share of the contexts is kept for it.
///
/// # Errors
/// A missing or damaged file, an answer that is not in its context, an id that stands twice, a folder with several
/// files of a split; the message names the file and the place.
pub fn read(path: &Path, options: &Options) -> Result<Squad> {
    let in_folder = |split: &str| if path.is_dir() { file_of(path, split) } else { Ok(None) };
    let train = if path.is_dir() {
        vec![in_folder("train")?.ok_or_else(|| {
            let shown = path.display();
            Error::user(format!(
                "there is no train.json or train-VERSION.json in {shown}; add one, or name a file with --data"
            ))
        })?]
    } else {
        files_of(path)?
    };
    let others = |given: &Option<PathBuf>, found: Option<PathBuf>| match given {
        Some(pattern) => files_of(pattern).map(Some),
        None => Ok(found.map(|file| vec![file])),
    };
    let of_dev = others(&options.dev, in_folder("dev")?.or(in_folder("val")?))?;
    let test = others(&options.test, in_folder("test")?)?;
    let mut remarks = Vec::new();
    let mut read = |files: &[PathBuf]| read_files(files, &mut remarks);
    let (mut all, shown) = (read(&train)?, train[0].display());
    let is_whole = of_dev.is_none() && options.whole;
    let dev = match of_dev {
        Some(files) => read(&files)?,
        None if is_whole => all.clone(),
        None => {
            let contexts = all.contexts().len();
            if contexts < 2 {
                return Err(Error::user(format!(
                    "{shown} has one context only, of which nothing can be kept for validation; add some, or name a file for it \
                     with data.dev"
                )));
            }
            let chosen = held_out::chosen(&vec![0; contexts], options.held_out, options.held_out_seed);
            let (kept, dev) = all.divided(&chosen);
            all = kept;
            dev
        }
    };
    Ok(Squad {
        train: Arc::new(all),
        dev: Arc::new(dev),
        is_whole,
        test: test.map(|files| read(&files).map(Arc::new)).transpose()?,
        remarks,
    })
}

/// Reads a file as it is distributed; its questions may have no answers.
///
/// # Errors
/// As [`read`].
pub fn read_file(path: &Path) -> Result<Questions> {
    read_files(&[path.to_path_buf()], &mut Vec::new())
}

/// The file of a split in a folder: `SPLIT.json`, or one whose name begins so.
fn file_of(dir: &Path, split: &str) -> Result<Option<PathBuf>> {
    let is_of = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.is_file() && name.starts_with(split) && name.ends_with(".json")
    };
    let mut found = listed(dir)?.into_iter().filter(is_of);
    match (found.next(), found.next()) {
        (Some(one), Some(other)) => Err(Error::user(format!(
            "{} and {} are both a {split} split; name one file with --data, and one to evaluate on with data.dev",
            one.display(),
            other.display()
        ))),
        (one, _) => Ok(one),
    }
}

#[derive(Deserialize)]
struct File {
    data: Vec<Article>,
}

#[derive(Deserialize)]
struct Article {
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    context: String,
    qas: Vec<Asked>,
}

#[derive(Deserialize)]
struct Asked {
    id: String,
    question: String,
    #[serde(default)]
    answers: Vec<Given>,
    #[serde(default)]
    is_impossible: bool,
}

#[derive(Deserialize)]
struct Given {
    text: String,
    /// None and numbers that are no places are written where a converter did not find the answer.
    #[serde(default)]
    answer_start: Option<f64>,
}

fn read_files(files: &[PathBuf], remarks: &mut Vec<String>) -> Result<Questions> {
    let (mut all, mut ids) = (Questions::default(), HashSet::new());
    for path in files {
        let mut moved = 0;
        let shown = path.display();
        let file: File = serde_json::from_str(&read_text(path)?).map_err(|error| {
            let (line, column, reason) = (error.line(), error.column(), error.to_string());
            let reason = reason.split(" at line ").next().unwrap_or_default();
            Error::user(format!(
                "{shown} line {line} column {column} is not as in a file of SQuAD ({reason}); restore the file"
            ))
        })?;
        for paragraph in file.data.into_iter().flat_map(|article| article.paragraphs) {
            let context = all.add_context(paragraph.context);
            for asked in paragraph.qas {
                let place = format!("{shown}, question {}", quoted(&asked.id));
                if !ids.insert(asked.id.clone()) {
                    return Err(Error::user(format!(
                        "{place}: the id stands twice; give every question its own"
                    )));
                }
                let given = if asked.is_impossible { Vec::new() } else { asked.answers };
                let mut answers = Vec::with_capacity(given.len());
                for Given { text, answer_start } in given {
                    let context = &all.contexts()[context];
                    let Some((start, is_moved)) = place_of(context, &text, answer_start) else {
                        return Err(Error::user(format!(
                            "{place}: its context does not have the answer {}; correct one of the two",
                            quoted(&text)
                        )));
                    };
                    moved += usize::from(is_moved);
                    answers.push(GivenAnswer { text, start });
                }
                all.add(Question {
                    id: asked.id,
                    text: asked.question,
                    context,
                    answers,
                    is_impossible: asked.is_impossible,
                });
            }
        }
        if all.is_empty() {
            return Err(Error::user(format!("{shown} has no questions; add some")));
        }
        if moved > 0 {
            remarks.push(format!(
                "{moved} answers in {shown} do not stand where answer_start says; the nearest place with the same text is taken"
            ));
        }
    }
    Ok(all)
}

/// The byte at which an answer begins that is said to begin at a character, and whether it is another one; the nearest
/// place with the same text. None where there is none. A number that is no place stands for the nearest place.
fn place_of(context: &str, answer: &str, start: Option<f64>) -> Option<(usize, bool)> {
    if answer.is_empty() {
        return None;
    }
    // The conversion of a number below 0 gives 0, and of one that is too large the largest.
    let said = start.unwrap_or(0.0) as usize;
    let is_place = start == Some(said as f64);
    let start = said;
    let said = if context.is_ascii() {
        Some(start)
    } else {
        context.char_indices().nth(start).map(|(byte, _)| byte)
    };
    let said = said.unwrap_or(context.len());
    if is_place && context.get(said..).is_some_and(|rest| rest.starts_with(answer)) {
        return Some((said, false));
    }
    let places = context.match_indices(answer).map(|(byte, _)| byte);
    places.min_by_key(|byte| byte.abs_diff(said)).map(|byte| (byte, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::fs;
    use tempfile::TempDir;

    fn folder(files: &[(&str, String)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    fn file(paragraphs: &[Value]) -> String {
        json!({ "version": "v2.0", "data": [{ "title": "T", "paragraphs": paragraphs }] }).to_string()
    }

    fn asked(id: &str, answers: &[(&str, i64)]) -> Value {
        let answers: Vec<Value> = answers
            .iter()
            .map(|(text, start)| json!({ "text": text, "answer_start": start }))
            .collect();
        json!({ "id": id, "question": "Who?", "answers": answers })
    }

    #[test]
    fn characters_become_bytes_and_answers_nearby_are_found() {
        let context = "Zoë wrote to Ada. Ada wrote back.";
        let mut impossible = asked("c", &[("Ada", 0)]);
        impossible["is_impossible"] = json!(true);
        let questions = [
            asked("a", &[("wrote", 4), ("Zoë", 0)]),
            asked("b", &[("Ada", 20)]),
            impossible,
        ];
        let dir = folder(&[
            (
                "train-v2.0.json",
                file(&[json!({ "context": context, "qas": questions })]),
            ),
            (
                "dev-v2.0.json",
                file(&[json!({ "context": "x", "qas": [asked("a", &[])] })]),
            ),
        ]);
        let data = read(dir.path(), &Options::default()).unwrap();
        let found: Vec<&Question> = data.train.iter().collect();
        let starts = |question: &Question| question.answers.iter().map(|answer| answer.start).collect::<Vec<_>>();
        assert_eq!([starts(found[0]), starts(found[1])], [vec![5, 0], vec![19]]);
        assert!(found[2].answers.is_empty() && found[2].is_impossible);
        assert!(data.train.has_unanswerable() && !data.dev.has_unanswerable());
        assert!(
            data.remarks.len() == 1 && data.remarks[0].starts_with("1 answers in "),
            "{:?}",
            data.remarks
        );
        assert!(
            data.split("test")
                .unwrap_err()
                .to_string()
                .ends_with("choose one of train, dev")
        );
    }

    #[test]
    fn a_number_that_is_no_place_stands_for_the_nearest_place() {
        let context = "Zoë met Zoë.";
        for (start, byte, is_moved) in [
            ("8", 9, false),
            ("8.0", 9, false),
            ("0", 0, false),
            ("-1", 0, true),
            ("-0.5", 0, true),
            ("7", 9, true),
            ("8.5", 9, true),
            ("99", 9, true),
            ("1e300", 9, true),
            ("null", 0, true),
        ] {
            let given: Given =
                serde_json::from_str(&format!("{{\"text\": \"Zoë\", \"answer_start\": {start}}}")).unwrap();
            assert_eq!(
                place_of(context, &given.text, given.answer_start),
                Some((byte, is_moved)),
                "{start}"
            );
            assert_eq!(place_of(context, "Ada", given.answer_start), None);
        }
        let given: Given = serde_json::from_str("{\"text\": \"Zoë\"}").unwrap();
        assert_eq!(place_of(context, &given.text, given.answer_start), Some((0, true)));
        // The case of one question whose answer begins at -1.
        let of = |id: &str| json!({ "context": "Rome", "qas": [asked(id, &[("Rome", -1)])] });
        let dir = folder(&[("s.json", file(&[of("1"), of("2")]))]);
        let data = read(&dir.path().join("s.json"), &Options::default()).unwrap();
        assert_eq!((data.train.len(), data.dev.len()), (1, 1));
        assert!(data.remarks[0].starts_with("2 answers in "), "{:?}", data.remarks);
    }

    #[test]
    fn questions_about_a_context_are_held_out_together() {
        let paragraph = |i: usize| {
            let of = |j: usize| asked(&format!("{i}.{j}"), &[("a", 0)]);
            json!({ "context": "a", "qas": [of(0), of(1)] })
        };
        let all: Vec<Value> = (0..10).map(paragraph).collect();
        let dir = folder(&[("all.json", file(&all))]);
        let options = Options {
            held_out: 0.3,
            ..Options::default()
        };
        let data = read(&dir.path().join("all.json"), &options).unwrap();
        assert_eq!(
            (data.train.len(), data.dev.len(), data.dev.contexts().len()),
            (14, 6, 3)
        );
        let ids: Vec<&str> = data.dev.iter().map(|question| question.id.as_str()).collect();
        assert!(ids.chunks(2).all(|two| two[0][..2] == two[1][..2]), "{ids:?}");
    }

    #[test]
    fn every_mistake_names_file_and_place() {
        let message = |files: &[(&str, String)]| {
            let dir = folder(files);
            let message = read(dir.path(), &Options::default()).unwrap_err().to_string();
            assert!(!message.contains('\n'));
            message.replace(&format!("{}/", dir.path().display()), "")
        };
        let with = |qas: &[Value]| file(&[json!({ "context": "Ada wrote.", "qas": qas })]);
        assert!(message(&[("dev.json", with(&[]))]).starts_with("there is no train.json or train-VERSION.json in "));
        assert_eq!(
            message(&[("train.json", with(&[asked("7", &[("Bob", 0)])]))]),
            "train.json, question '7': its context does not have the answer 'Bob'; correct one of the two"
        );
        assert_eq!(
            message(&[("train.json", with(&[asked("7", &[]), asked("7", &[])]))]),
            "train.json, question '7': the id stands twice; give every question its own"
        );
        assert_eq!(
            message(&[("train.json", "{\"data\": [{}]}".to_string())]),
            "train.json line 1 column 12 is not as in a file of SQuAD (missing field `paragraphs`); restore the file"
        );
        assert!(message(&[("train.json", "[1]".to_string())]).contains(" is not as in a file of SQuAD ("));
        assert_eq!(
            message(&[("train.json", with(&[]))]),
            "train.json has no questions; add some"
        );
        assert_eq!(
            message(&[("train-v1.1.json", with(&[])), ("train-v2.0.json", with(&[]))]),
            "train-v1.1.json and train-v2.0.json are both a train split; name one file with --data, and one to evaluate on \
             with data.dev"
        );
        assert!(message(&[("train.json", with(&[asked("7", &[])]))]).contains("has one context only"));
    }
}
