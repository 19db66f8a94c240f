//! Lines with answers, as CSV, TSV or JSON lines.

use super::output::{Fields, Format, checked, io_error};
use crate::tell;
use csv::{QuoteStyle, WriterBuilder};
use lessen_base::{Error, Result};
use lessen_data::labelled::Record;
use serde_json::{Map, Value};
use std::io::Write;

/// Before the name of an answer, where a column has that name already.
const RENAMED: &str = "predicted_";

/// A writer of lines that have the same columns.
pub struct Records<'a> {
    sink: Sink<'a>,
    /// Whether the line of names is written.
    is_begun: bool,
    /// Whether it was told that an answer has another name.
    is_told: bool,
}

enum Sink<'a> {
    Csv(Box<csv::Writer<&'a mut dyn Write>>),
    Tsv(Box<csv::Writer<&'a mut dyn Write>>),
    Jsonl(&'a mut dyn Write),
}

impl<'a> Records<'a> {
    /// Nothing yet.
    pub fn new(out: &'a mut dyn Write, format: Format) -> Records<'a> {
        Records {
            sink: match format {
                Format::Csv => Sink::Csv(Box::new(csv::Writer::from_writer(out))),
                Format::Tsv => {
                    let mut builder = WriterBuilder::new();
                    builder.delimiter(b'\t').quote_style(QuoteStyle::Never);
                    Sink::Tsv(Box::new(builder.from_writer(out)))
                }
                Format::Jsonl => Sink::Jsonl(out),
            },
            is_begun: false,
            is_told: false,
        }
    }

    /// Writes a line that was read, if there is one, with an answer after its columns. An answer whose name a column
    /// has gets another name, which is told.
    ///
    /// # Errors
    /// A place that cannot be written to, and what the format has no place for.
    pub fn write(&mut self, record: Option<&Record>, mut fields: Fields) -> Result<()> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if let Some(record) = record {
            self.is_told |= rename(record.names(), &mut fields, !self.is_told);
        }
        let (out, is_tsv) = match &mut self.sink {
            Sink::Jsonl(out) => {
                let line = match record {
                    Some(record) => record.to_json(&fields)?,
                    None => Value::Object(fields.into_iter().collect::<Map<_, _>>()).to_string(),
                };
                return checked(writeln!(out, "{line}"));
            }
            Sink::Csv(out) => (out, false),
            Sink::Tsv(out) => (out, true),
        };
        let names = record.map_or(&[][..], Record::names).iter().cloned();
        let names: Vec<String> = names.chain(fields.iter().map(|(name, _)| name.clone())).collect();
        let mut cells = record.map_or(Ok(Vec::new()), Record::cells)?;
        cells.extend(fields.iter().map(|(_, value)| cell(value)));
        for line in is_first.then_some(&names).into_iter().chain([&cells]) {
            if is_tsv {
                fits_tsv(&names, line)?;
            }
            checked(out.write_record(line).map_err(io_error))?;
        }
        Ok(())
    }

    /// Writes buffered lines.
    ///
    /// # Errors
    /// A place that cannot be written to.
    pub fn flush(&mut self) -> Result<()> {
        checked(match &mut self.sink {
            Sink::Csv(out) | Sink::Tsv(out) => out.flush(),
            Sink::Jsonl(out) => out.flush(),
        })
    }
}

/// Gives answers names that no column has, and says so where it `tells`; whether there are such.
fn rename(columns: &[String], fields: &mut Fields, tells: bool) -> bool {
    let mut has_renamed = false;
    for (name, _) in fields {
        let given = name.clone();
        while columns.contains(name) {
            name.insert_str(0, RENAMED);
        }
        if *name != given {
            has_renamed = true;
            if tells {
                tell(&format!(
                    "note: there is a column {given} already; the answers are in {name}"
                ));
            }
        }
    }
    has_renamed
}

/// Refuses a cell that TSV, which has no quotes, cannot hold.
fn fits_tsv(names: &[String], cells: &[String]) -> Result<()> {
    match cells
        .iter()
        .zip(names)
        .find(|(cell, _)| cell.contains(['\t', '\n', '\r']))
    {
        Some((_, name)) => Err(Error::user(format!(
            "a cell in the column '{name}' has a tab or a line end, which TSV cannot hold; write csv or jsonl"
        ))),
        None => Ok(()),
    }
}

/// A value in a cell: nothing for null, and six decimals of a number that is not whole.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.6}", number.as_f64().unwrap_or_default()),
        value => value.to_string(),
    }
}
