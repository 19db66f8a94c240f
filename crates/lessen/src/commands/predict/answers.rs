//! Answers to questions about texts.

use super::answer_format::AnswerFormat;
use super::asking::fields_of_answer;
use super::input::{Input, InputOptions, LineColumns};
use super::output::{self, Format};
use super::records::Records;
use super::{Predict, answer_all};
use lessen_base::{Error, Result};
use lessen_data::{FoundAnswer, Question, Questions, squad};
use lessen_saved::saved_run::{SavedRun, split_pair};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Answers the questions of the flags.
///
/// # Errors
/// Flags that are for other models; errors of reading, asking and writing.
pub fn predict(asked: &Predict, run: &SavedRun) -> Result<()> {
    refuse_probabilities(asked)?;
    match (&asked.what.text, &asked.what.input) {
        (Some(text), _) => one(asked, run, text),
        (_, Some(input)) => many(asked, run, input),
        _ => Err(Error::user(
            "--glue is for classifiers, and the model finds answers; name a file with questions and texts by --input",
        )),
    }
}

/// Refuses a flag that is for classes.
///
/// # Errors
/// The flag.
pub fn refuse_probabilities(asked: &Predict) -> Result<()> {
    if asked.probabilities {
        return Err(Error::user(
            "--probabilities is for classes, and the model finds answers, each with its own probability; leave it out",
        ));
    }
    Ok(())
}

/// Answers one question.
fn one(asked: &Predict, run: &SavedRun, text: &str) -> Result<()> {
    let (question, context) = match (&asked.question, split_pair(text, true)) {
        (Some(question), _) => (question.clone(), text.to_string()),
        (None, (question, Some(context))) => (question, context),
        (None, _) => {
            return Err(Error::user(
                "the model answers questions about a text; give one with --question, or write question and text into --text with \
                 a tab between",
            ));
        }
    };
    if question.trim().is_empty() || context.trim().is_empty() {
        return Err(Error::user(
            "the question or the text is empty; give at least one character of each",
        ));
    }
    let questions = Arc::new(Questions::unanswered([(question.as_str(), context.as_str())]));
    let answerer = run.answerer()?;
    let found = answerer.ask(questions)?;
    let cut = answerer.cut_texts();
    cut.tell();
    for found in found {
        let found = found.map_err(|error| error.at("--text"))?;
        let mut object: Map<String, Value> = fields_of_answer(&found).into_iter().collect();
        object.insert("cut_texts".into(), cut.to_json());
        let words = format!("{} ({:.1} %)", shown(&found), 100.0 * found.probability);
        asked.say_answer(&Value::Object(object), &words)?;
    }
    Ok(())
}

/// An answer for people.
fn shown(found: &FoundAnswer) -> &str {
    match found.text.as_str() {
        "" => "no answer",
        text => text,
    }
}

/// Answers the questions of a file.
fn many(asked: &Predict, run: &SavedRun, input: &Path) -> Result<()> {
    let is_squad = input
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    let is_json = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let named = match asked.format {
        None if is_squad && asked.output.as_ref().is_some_and(is_json) => None,
        _ => asked.answer_format()?,
    };
    let format = match named {
        None if is_squad => None,
        Some(AnswerFormat::Squad) if is_squad => None,
        None => Some(Format::Csv),
        Some(named) => Some(named.of_rows()?),
    };
    if is_squad {
        let questions = Arc::new(squad::read_file(input)?);
        asked.write(|out| of_squad(run, questions, format, out))
    } else {
        let options = InputOptions {
            columns: run.columns_of_questions(),
            has_pairs: Some(true),
            lines: LineColumns::of_questions(),
        };
        let (input, format) = (Input::open(input, options)?, format.unwrap_or(Format::Csv));
        asked.write(|out| answer_all(run, input, asked.options(run, format), out))
    }
}

/// Answers a file of SQuAD: as an object of answers, or in rows.
fn of_squad(run: &SavedRun, questions: Arc<Questions>, format: Option<Format>, out: &mut dyn Write) -> Result<()> {
    let answerer = run.answerer()?;
    let found = answerer.ask(questions.clone())?;
    answerer.cut_texts().tell();
    let named = found.into_iter().zip(questions.iter());
    let named = named.map(|(found, asked)| found.map_err(|error| error.at(format!("question {}", asked.id))));
    let found: Vec<FoundAnswer> = named.collect::<Result<_>>()?;
    let all = questions.iter().zip(&found);
    match format {
        None => {
            let answers: Map<String, Value> = all
                .map(|(asked, found)| (asked.id.clone(), json!(found.text)))
                .collect();
            output::checked(writeln!(out, "{}", Value::Object(answers)))
        }
        Some(format) => {
            let mut records = Records::new(out, format);
            for (Question { id, text, .. }, found) in all {
                let asked = [("id", json!(id)), ("question", json!(text))];
                let asked = asked.map(|(name, value)| (name.to_string(), value));
                records.write(None, asked.into_iter().chain(fields_of_answer(found)).collect())?;
            }
            records.flush()
        }
    }
}
