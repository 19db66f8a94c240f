//! Answers to questions about texts.

use super::Predict;
use super::answer_format::AnswerFormat;
use super::input::Input;
use super::output::{self, Format};
use super::records::Records;
use crate::say;
use lessen_data::{FoundAnswer, Question, Questions, squad};
use lessen_run::saved_run::{SavedRun, split_pair};
use lessen_run::{Error, Result};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Answers the questions of the flags.
///
/// # Errors
/// Flags that are for other models; errors of reading, asking and writing.
pub fn predict(asked: &Predict, run: &SavedRun<'_>) -> Result<()> {
    if asked.probabilities {
        return Err(Error::user(
            "--probabilities is for classes, and the model finds answers, each with its own probability; leave it out",
        ));
    }
    match (&asked.what.text, &asked.what.input) {
        (Some(text), _) => one(asked, run, text),
        (_, Some(input)) => many(asked, run, input),
        _ => Err(Error::user(
            "--glue is for classifiers, and the model finds answers; name a file with questions and texts by --input",
        )),
    }
}

/// Answers one question.
fn one(asked: &Predict, run: &SavedRun<'_>, text: &str) -> Result<()> {
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
    let mut answerer = run.answerer()?;
    let found = answerer.ask(questions)?;
    let cut = answerer.cut_texts();
    cut.tell();
    for found in found {
        say(&if asked.json {
            let mut object: Map<String, Value> = cells(&found).into_iter().collect();
            object.insert("cut_texts".into(), cut.to_json());
            format!("{}\n", Value::Object(object))
        } else {
            format!("{} ({:.1} %)\n", shown(&found), 100.0 * found.probability)
        })?;
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

/// The description of an answer. Without an answer, it has no place in the text.
fn cells(found: &FoundAnswer) -> Vec<(String, Value)> {
    let place = |place: usize| (!found.text.is_empty()).then_some(place);
    let cells = [
        ("answer", json!(found.text)),
        ("start", json!(place(found.characters.start))),
        ("end", json!(place(found.characters.end))),
        ("probability", json!(found.probability)),
        ("null_margin", json!(found.null_margin)),
    ];
    cells.map(|(name, value)| (name.to_string(), value)).to_vec()
}

/// Answers the questions of a file.
fn many(asked: &Predict, run: &SavedRun<'_>, input: &Path) -> Result<()> {
    let is_squad = input
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    let form = asked.format.or(AnswerFormat::of(asked.output.as_deref()));
    let format = match form {
        None if is_squad => None,
        Some(AnswerFormat::Squad) if is_squad => None,
        None => Some(Format::of(asked.output.as_deref())),
        Some(form) => Some(form.of_rows()?),
    };
    if is_squad {
        let questions = Arc::new(squad::read_file(input)?);
        asked.write(|out| of_squad(run, questions, format, out))
    } else {
        let input = Input::open(input, &run.columns_of_questions(), Some(true))?;
        asked.write(|out| of_rows(run, input, format.unwrap_or(Format::Csv), out))
    }
}

/// Answers a file of SQuAD: as an object of answers, or in rows.
fn of_squad(run: &SavedRun<'_>, questions: Arc<Questions>, format: Option<Format>, out: &mut dyn Write) -> Result<()> {
    let mut answerer = run.answerer()?;
    let found = answerer.ask(questions.clone())?;
    answerer.cut_texts().tell();
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
                records.write(asked.into_iter().chain(cells(found)).collect())?;
            }
            records.finish()
        }
    }
}

/// Answers rows of questions and texts, in batches.
fn of_rows(run: &SavedRun<'_>, mut input: Input, format: Format, out: &mut dyn Write) -> Result<()> {
    let mut answerer = run.answerer()?;
    let mut records = Records::new(out, format);
    loop {
        let pairs = input.next(answerer.at_once())?;
        if pairs.is_empty() {
            break;
        }
        let asked = pairs
            .iter()
            .map(|(question, context)| (question.as_str(), context.as_deref().unwrap_or_default()));
        let questions = Questions::unanswered(asked);
        let found = answerer
            .ask(Arc::new(questions))
            .map_err(|error| error.at(input.name()))?;
        for ((question, _), found) in pairs.iter().zip(&found) {
            let question = ("question".to_string(), json!(question));
            records.write(std::iter::once(question).chain(cells(found)).collect())?;
        }
    }
    input.finish();
    answerer.cut_texts().tell();
    records.finish()
}
