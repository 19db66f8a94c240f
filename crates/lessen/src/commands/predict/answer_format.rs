//! The formats of `--format`.

use super::output::Format;
use clap::ValueEnum;
use lessen_base::{Error, Result};
use std::path::Path;

/// The format of answers.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnswerFormat {
    /// Comma-separated values with a line of names
    Csv,
    /// Tab-separated values with a line of names, without quotes
    Tsv,
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
            AnswerFormat::Tsv => return Ok(Format::Tsv),
            AnswerFormat::Jsonl => return Ok(Format::Jsonl),
            AnswerFormat::Conll => ("conll", "models that tell classes of words apart"),
            AnswerFormat::Squad => ("squad", "answers to a file of SQuAD (--input FILE.json)"),
        };
        Err(Error::user(format!(
            "--format {word} is for {what}; choose csv, tsv or jsonl"
        )))
    }

    /// The format that the ending of a file names; none where it has no ending.
    ///
    /// # Errors
    /// Another ending.
    pub fn of(path: &Path) -> Result<Option<AnswerFormat>> {
        let Some(ending) = path.extension() else {
            return Ok(None);
        };
        let ending = ending.to_string_lossy().to_ascii_lowercase();
        Ok(Some(match ending.as_str() {
            "csv" => AnswerFormat::Csv,
            "tsv" => AnswerFormat::Tsv,
            "jsonl" | "ndjson" | "json" => AnswerFormat::Jsonl,
            "conll" => AnswerFormat::Conll,
            _ => {
                return Err(Error::user(format!(
                    "--output {}: answers are not written as .{ending}; name the file .csv, .tsv or .jsonl, or say the \
                     format with --format",
                    path.display()
                )));
            }
        }))
    }
}

/// The format that a flag says, or else the ending of the file to write to; none where neither does.
///
/// # Errors
/// An ending of another format, which a flag may overrule, and one of Parquet, which no flag does.
pub fn chosen(flag: Option<AnswerFormat>, output: Option<&Path>) -> Result<Option<AnswerFormat>> {
    let is_parquet = |path: &&Path| {
        path.extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"))
    };
    match (flag, output) {
        (Some(flag), path) if path.as_ref().is_none_or(|path| !is_parquet(path)) => Ok(Some(flag)),
        (_, Some(path)) if is_parquet(&path) => Err(Error::user(format!(
            "--output {}: answers are not written as Parquet; name the file .csv, .tsv or .jsonl",
            path.display()
        ))),
        (_, Some(path)) => AnswerFormat::of(path),
        (_, None) => Ok(None),
    }
}
