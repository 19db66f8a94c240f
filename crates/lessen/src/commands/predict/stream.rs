//! Answers to the lines of stdin as they come: a JSON object for each line, written at once.

use super::asking::Asking;
use super::input::LineColumns;
use super::output::{Fields, Format};
use super::records::Records;
use crate::stdout;
use lessen_base::{Error, Result};
use lessen_data::TextPair;
use lessen_data::labelled::{Columns, Record, text_of_json};
use serde_json::json;
use std::io::{self, BufRead};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Lines that may wait to be answered; a writer that is faster waits itself.
const WAITING: usize = 4096;

/// How lines are read.
pub struct LineOptions {
    /// The fields of texts in objects.
    pub columns: Columns,
    /// Whether texts are pairs; none where the fields of an object say it.
    pub has_pairs: Option<bool>,
    /// The columns of plain lines.
    pub lines: LineColumns,
}

/// Answers every line of stdin, in order: a text, or an object of JSON, whose other fields stay. What waits is asked
/// about together. A line that cannot be answered gets an object with its number and an `error`.
///
/// # Errors
/// A stdin that cannot be read; a full standard output; after the last line, the first one for which the model has no
/// sound numbers.
pub fn answer(asking: &mut Asking<'_>, options: &LineOptions) -> Result<()> {
    let lines = lines();
    let (mut number, mut unsound) = (0, None);
    stdout::write(|out| {
        let mut records = Records::new(out, Format::Jsonl);
        while let Ok(first) = lines.recv() {
            let more = lines.try_iter().take(asking.at_once().saturating_sub(1));
            let waiting: Vec<Line> = std::iter::once(first).chain(more).collect();
            let read: Vec<Read> = waiting
                .into_iter()
                .map(|line| {
                    number += 1;
                    read(line, number, options)
                })
                .collect();
            let from = number - read.len();
            let first = write_all(asking, from, read, &mut records)?;
            if unsound.is_none() {
                unsound = first;
            }
            records.flush()?;
        }
        Ok(())
    })?;
    asking.tell();
    unsound.map_or(Ok(()), Err)
}

/// The bytes of a line.
type Line = io::Result<Vec<u8>>;

/// A text of a line, or why there is none.
type Read = Result<(TextPair, Record)>;

/// Reads stdin on a thread, so that the lines that wait are known.
fn lines() -> Receiver<Line> {
    let (sender, receiver) = sync_channel(WAITING);
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut bytes = Vec::new();
            let line = match stdin.read_until(b'\n', &mut bytes) {
                Ok(0) => return,
                Ok(_) => Ok(bytes),
                Err(error) => Err(error),
            };
            let is_last = line.is_err();
            if sender.send(line).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// The text of a line.
fn read(line: Line, number: usize, options: &LineOptions) -> Read {
    let error = |what: &str| Error::user(format!("stdin line {number} {what}"));
    let bytes = line.map_err(|reason| error(&format!("cannot be read ({reason})")))?;
    let text = String::from_utf8(bytes).map_err(|_| error("is not valid UTF-8; write UTF-8"))?;
    let text = text.trim_end_matches(['\n', '\r']);
    let text = if number == 1 {
        text.trim_start_matches('\u{feff}')
    } else {
        text
    };
    if text.trim().is_empty() {
        return Err(error("is empty; write a text"));
    }
    if !text.trim_start().starts_with('{') {
        return options.lines.read("stdin", number, text);
    }
    let ((first, second), record) = text_of_json(Path::new("stdin"), number, text, &options.columns)?;
    match options.has_pairs {
        Some(true) if second.is_none() => Err(error("has no second text; give one")),
        Some(false) => Ok(((first, None), record)),
        _ => Ok(((first, second), record)),
    }
}

/// Writes the answers to lines, in order. Returns the error of the first line for which the model has no sound numbers.
fn write_all(
    asking: &mut Asking<'_>,
    from: usize,
    lines: Vec<Read>,
    records: &mut Records<'_>,
) -> Result<Option<Error>> {
    let texts: Vec<TextPair> = lines.iter().flatten().map(|(text, _)| text.clone()).collect();
    let answers: Vec<Result<Result<Fields>>> = match asking.ask(&texts) {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        // One of them cannot be answered; the others can.
        Err(_) => texts.iter().map(|text| one(asking, text)).collect(),
    };
    let (mut answers, mut unsound) = (answers.into_iter(), None);
    for (place, line) in lines.into_iter().enumerate() {
        let answered = match line {
            Ok((_, record)) => match answers.next() {
                Some(Ok(Err(error))) => {
                    let error = error.at(format!("stdin line {}", from + place + 1));
                    unsound = unsound.or(Some(error.clone()));
                    Err(error)
                }
                Some(answer) => answer.flatten().map(|fields| (record, fields)),
                None => continue,
            },
            Err(error) => Err(error),
        };
        match answered {
            Ok((record, fields)) => records.write(Some(&record), fields)?,
            Err(error) => {
                let fields = [("line", json!(from + place + 1)), ("error", json!(error.to_string()))];
                records.write(None, fields.map(|(name, value)| (name.to_string(), value)).to_vec())?;
            }
        }
    }
    Ok(unsound)
}

/// The answer to one text.
fn one(asking: &mut Asking<'_>, text: &TextPair) -> Result<Result<Fields>> {
    let answers = asking.ask(std::slice::from_ref(text))?;
    Ok(answers.into_iter().next().unwrap_or_else(|| Ok(Fields::new())))
}
