//! Rows of named cells, as CSV or as JSON lines.

use super::output::{Format, checked, io_error};
use lessen_run::Result;
use serde_json::{Map, Value};
use std::io::Write;

/// A writer of rows that have the same names.
pub struct Records<'a> {
    sink: Sink<'a>,
}

enum Sink<'a> {
    /// Rows, and whether the line of names is written.
    Csv(Box<csv::Writer<&'a mut dyn Write>>, bool),
    Jsonl(&'a mut dyn Write),
}

impl<'a> Records<'a> {
    /// Nothing yet.
    pub fn new(out: &'a mut dyn Write, format: Format) -> Records<'a> {
        Records {
            sink: match format {
                Format::Csv => Sink::Csv(Box::new(csv::Writer::from_writer(out)), false),
                Format::Jsonl => Sink::Jsonl(out),
            },
        }
    }

    /// Writes a row.
    ///
    /// # Errors
    /// A place that cannot be written to.
    pub fn write(&mut self, cells: Vec<(String, Value)>) -> Result<()> {
        checked(match &mut self.sink {
            Sink::Csv(out, is_begun) => {
                let head = if std::mem::replace(is_begun, true) {
                    Ok(())
                } else {
                    out.write_record(cells.iter().map(|(name, _)| name))
                };
                let row = cells.iter().map(|(_, value)| cell(value));
                head.and_then(|()| out.write_record(row)).map_err(io_error)
            }
            Sink::Jsonl(out) => writeln!(out, "{}", Value::Object(cells.into_iter().collect::<Map<_, _>>())),
        })
    }

    /// Writes buffered records.
    ///
    /// # Errors
    /// A place that cannot be written to.
    pub fn finish(self) -> Result<()> {
        checked(match self.sink {
            Sink::Csv(mut out, _) => out.flush(),
            Sink::Jsonl(out) => out.flush(),
        })
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
