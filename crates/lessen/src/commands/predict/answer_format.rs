//! The formats of `--format`.

use super::output::Format;
use clap::ValueEnum;
use lessen_run::{Error, Result};
use std::path::Path;

/// The format of answers.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnswerFormat {
    /// Comma-separated values with a line of names
    Csv,
    /// A JSON object on each line
    Jsonl,
    /// A word, a tab and its class on each line, and a blank line after each sentence
    Conll,
    /// A JSON object with the answer to each question of a file of SQuAD, as its scripts take it
    Squad,
}

impl AnswerFormat {
    /// The format of rows.
    ///
    /// # Errors
    /// Another one.
    pub fn of_rows(self) -> Result<Format> {
        let (word, what) = match self {
            AnswerFormat::Csv => return Ok(Format::Csv),
            AnswerFormat::Jsonl => return Ok(Format::Jsonl),
            AnswerFormat::Conll => ("conll", "models that tell classes of words apart"),
            AnswerFormat::Squad => ("squad", "answers to a file of SQuAD (--input FILE.json)"),
        };
        Err(Error::user(format!(
            "--format {word} is for {what}; choose csv or jsonl"
        )))
    }

    /// The format that the ending of a file names, if it names one.
    pub fn of(path: Option<&Path>) -> Option<AnswerFormat> {
        match path.and_then(Path::extension).and_then(|ending| ending.to_str())? {
            "csv" => Some(AnswerFormat::Csv),
            "jsonl" | "ndjson" => Some(AnswerFormat::Jsonl),
            "conll" => Some(AnswerFormat::Conll),
            _ => None,
        }
    }
}
