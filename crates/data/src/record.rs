//! A line of a table with all of its columns, to which answers are added.

use std::sync::Arc;

use lessen_base::{Error, Result};
use serde_json::{Map, Value};

use crate::files::quoted;
use crate::json_object::{Object, cell};

/// A line of a table as it was read: its columns by name, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    names: Arc<[String]>,
    /// From 1; 0 where that says nothing.
    line: usize,
    cells: Cells,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Cells {
    /// As many as there are names.
    Texts(Vec<String>),
    /// An object of JSON as it is written, and the fields in it that have no name among those of the table.
    Object(String, Vec<String>),
}

impl Record {
    /// A line with these texts in the columns of these names.
    ///
    /// # Panics
    /// If there are not as many cells as names.
    pub fn of_cells(names: &Arc<[String]>, line: usize, cells: Vec<String>) -> Record {
        assert_eq!(names.len(), cells.len(), "cells of a record");
        Record {
            names: names.clone(),
            line,
            cells: Cells::Texts(cells),
        }
    }

    /// An object of JSON, `text` as it is written with these fields, in a table with columns of these names.
    pub(crate) fn of_json(
        names: &Arc<[String]>,
        line: usize,
        text: &str,
        fields: impl Iterator<Item = impl AsRef<str>>,
    ) -> Record {
        let is_known = |field: &str| names.iter().any(|name| name == field);
        let more = fields
            .filter(|field| !is_known(field.as_ref()))
            .map(|field| field.as_ref().to_string())
            .collect();
        Record {
            names: names.clone(),
            line,
            cells: Cells::Object(text.trim().to_string(), more),
        }
    }

    /// The number of the line, from 1; none where that says nothing.
    pub fn line(&self) -> Option<usize> {
        (self.line > 0).then_some(self.line)
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The texts of the columns: those of JSON as they are written, but strings without quotes and nothing for null and
    /// for a field that is missing.
    ///
    /// # Errors
    /// An object with a field that has no column.
    pub fn cells(&self) -> Result<Vec<String>> {
        match &self.cells {
            Cells::Texts(cells) => Ok(cells.clone()),
            Cells::Object(_, more) if !more.is_empty() => Err(self.error(&format!(
                "has a field {} that the first line lacks, so that it has no column; write JSON lines",
                quoted(&more[0])
            ))),
            Cells::Object(text, _) => {
                let object = parsed(text)?;
                Ok(self
                    .names
                    .iter()
                    .map(|name| object.get(name).and_then(cell).unwrap_or_default())
                    .collect())
            }
        }
    }

    /// The line as an object of JSON with more fields at its end. Fields of JSON stay as they are written.
    ///
    /// # Errors
    /// Two columns, or a column and an answer, of one name.
    pub fn to_json(&self, answers: &[(String, Value)]) -> Result<String> {
        let added: Map<String, Value> = answers.iter().cloned().collect();
        match &self.cells {
            Cells::Object(text, more) => {
                if let Some(name) = more.iter().find(|name| added.contains_key(*name)) {
                    return Err(self.error(&format!(
                        "has a field {}, the name of an answer, which the first line lacks; give it to every line, or to none",
                        quoted(name)
                    )));
                }
                let (open, added) = (text.strip_suffix('}').unwrap_or(text).trim_end(), Value::Object(added));
                let comma = if open.ends_with('{') || answers.is_empty() {
                    ""
                } else {
                    ","
                };
                Ok(format!("{open}{comma}{}", &added.to_string()[1..]))
            }
            Cells::Texts(cells) => {
                let mut object = Map::new();
                for (name, cell) in self.names.iter().zip(cells) {
                    if object.insert(name.clone(), Value::String(cell.clone())).is_some() {
                        return Err(Error::user(format!(
                            "two columns are called {}, which an object of JSON cannot have; write csv or tsv",
                            quoted(name)
                        )));
                    }
                }
                object.extend(added);
                Ok(Value::Object(object).to_string())
            }
        }
    }

    /// An error at this line.
    fn error(&self, what: &str) -> Error {
        Error::user(format!("line {} {what}", self.line))
    }
}

fn parsed(text: &str) -> Result<Object<'_>> {
    Object::of(text).map_err(|error| Error::internal(format!("an object that was read is none ({error})")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(names: &[&str]) -> Arc<[String]> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn answers_stand_at_the_end_and_the_rest_stays_as_it_is_written() {
        let answers = [
            ("label".to_string(), json!("fair")),
            ("probability".to_string(), json!(0.5)),
        ];
        let of = |text: &str| {
            let object = parsed(text).unwrap();
            let names: Arc<[String]> = object.names().map(str::to_string).collect();
            Record::of_json(&names, 1, text, object.names())
        };
        let cases = [
            (
                r#"{"id": 1.50, "text":"a" }"#,
                r#"{"id": 1.50, "text":"a","label":"fair","probability":0.5}"#,
            ),
            (r#" {"text":"}"}"#, r#"{"text":"}","label":"fair","probability":0.5}"#),
            (
                r#"{"n":123456789012345678901234567890}"#,
                r#"{"n":123456789012345678901234567890,"label":"fair","probability":0.5}"#,
            ),
            (r#"{ }"#, r#"{"label":"fair","probability":0.5}"#),
        ];
        for (text, expected) in cases {
            let written = of(text).to_json(&answers).unwrap();
            assert_eq!(written, expected);
            serde_json::from_str::<Value>(&written).unwrap();
        }
        assert_eq!(
            of(r#"{"a":null,"b":[1, 2],"c":"x","d":true}"#).cells().unwrap(),
            ["", "[1, 2]", "x", "true"]
        );
    }

    #[test]
    fn what_has_no_place_is_refused() {
        let table = names(&["text", "id"]);
        let record = Record::of_json(&table, 7, r#"{"text":"a","label":"b"}"#, ["text", "label"].iter());
        let error = record.cells().unwrap_err().to_string();
        assert!(
            error.starts_with("line 7 has a field 'label' that the first line lacks"),
            "{error}"
        );
        let error = record.to_json(&[("label".into(), json!("c"))]).unwrap_err().to_string();
        assert!(
            error.starts_with("line 7 has a field 'label', the name of an answer"),
            "{error}"
        );
        let twice = Record::of_cells(&names(&["a", "a"]), 2, vec!["x".into(), "y".into()]);
        assert_eq!(twice.cells().unwrap(), ["x", "y"]);
        assert!(
            twice
                .to_json(&[])
                .unwrap_err()
                .to_string()
                .contains("two columns are called 'a'")
        );
    }
}
