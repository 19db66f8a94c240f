//! What the columns of a table are, as a model keeps it.

use std::fs;
use std::path::Path;

use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::cell_values::{date, is_missing, number};
use crate::files::{quoted, unreadable};

/// The file beside a model.
const FILE: &str = "table.json";

/// Most standard deviations from the mean that a model sees; no training row of less than 10^12 is as far.
const FARTHEST: f32 = 1e6;

/// Elements of the values of a column beyond which a file is no schema of this crate.
const MOST_VALUES: usize = 1 << 20;

/// The columns that a model sees of a table, in order, and how their values become numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSchema {
    /// The columns in order.
    pub columns: Vec<TableColumn>,
    /// The name of the column to be learnt.
    pub label: String,
    /// Mean and standard deviation of a number to be learnt; none of classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<[f64; 2]>,
}

/// A column that a model sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableColumn {
    /// The name.
    pub name: String,
    /// What its values are.
    #[serde(flatten)]
    pub kind: ColumnKind,
}

/// What the values of a column are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ColumnKind {
    /// A number `x`, seen as `(x - mean) / std`. A missing one is seen as 0.
    Number {
        /// The mean of the training rows.
        mean: f64,
        /// Their standard deviation, above 0.
        std: f64,
        /// Whether a further element is 1 where the value is missing and 0 elsewhere.
        is_missing_marked: bool,
    },
    /// A date or time, in days since 1970, seen as a number is.
    Date {
        /// The mean of the training rows.
        mean: f64,
        /// Their standard deviation, above 0.
        std: f64,
        /// Whether a further element is 1 where the value is missing and 0 elsewhere.
        is_missing_marked: bool,
    },
    /// One of some values: an element for each is 1 for that value and 0 for the others, and a last one is 1 for all
    /// values that are not listed. The empty text stands for a missing value.
    Category {
        /// The values in order.
        values: Vec<String>,
    },
}

impl ColumnKind {
    /// The number of elements.
    pub fn width(&self) -> usize {
        match self {
            ColumnKind::Number { is_missing_marked, .. } | ColumnKind::Date { is_missing_marked, .. } => {
                1 + usize::from(*is_missing_marked)
            }
            ColumnKind::Category { values } => values.len() + 1,
        }
    }

    /// Appends the elements of a cell. A cell that is no number, or no date, is missing.
    fn encode(&self, cell: Option<&str>, out: &mut Vec<f32>) {
        let cell = cell.map(str::trim).filter(|cell| !is_missing(cell));
        let mut standardised = |value: Option<f64>, (mean, std, is_marked): (f64, f64, bool)| {
            let seen = value.map_or(0.0, |value| ((value - mean) / std) as f32);
            out.push(seen.clamp(-FARTHEST, FARTHEST));
            if is_marked {
                out.push(f32::from(value.is_none()));
            }
        };
        match self {
            ColumnKind::Number {
                mean,
                std,
                is_missing_marked,
            } => standardised(cell.and_then(number), (*mean, *std, *is_missing_marked)),
            ColumnKind::Date {
                mean,
                std,
                is_missing_marked,
            } => standardised(cell.and_then(date), (*mean, *std, *is_missing_marked)),
            ColumnKind::Category { values } => {
                let start = out.len();
                out.resize(start + values.len() + 1, 0.0);
                let cell = cell.unwrap_or_default();
                let place = values.iter().position(|value| value == cell);
                out[start + place.unwrap_or(values.len())] = 1.0;
            }
        }
    }
}

impl TableSchema {
    /// Returns the number of elements of a row.
    pub fn width(&self) -> usize {
        self.columns.iter().map(|column| column.kind.width()).sum()
    }

    /// Returns a name for each element of a row: that of the column, with `=` and the value of a category.
    pub fn element_names(&self) -> Vec<String> {
        let mut names = Vec::with_capacity(self.width());
        for TableColumn { name, kind } in &self.columns {
            match kind {
                ColumnKind::Number { is_missing_marked, .. } | ColumnKind::Date { is_missing_marked, .. } => {
                    names.push(name.clone());
                    names.extend(is_missing_marked.then(|| format!("{name} is missing")));
                }
                ColumnKind::Category { values } => {
                    names.extend(values.iter().map(|value| match &value[..] {
                        "" => format!("{name} is missing"),
                        value => format!("{name}={value}"),
                    }));
                    names.push(format!("{name} is another value"));
                }
            }
        }
        names
    }

    /// Appends the elements of a row to `out`: `row` has a cell for each of the columns, in order.
    ///
    /// # Panics
    /// If there are not as many cells as columns.
    pub fn encode(&self, row: &[Option<&str>], out: &mut Vec<f32>) {
        assert_eq!(row.len(), self.columns.len(), "cells of a row");
        for (column, cell) in self.columns.iter().zip(row) {
            column.kind.encode(*cell, out);
        }
    }

    /// Appends the elements of a row whose cells are found by the names of columns.
    pub fn encode_named<'a>(&self, cell: impl Fn(&str) -> Option<&'a str>, out: &mut Vec<f32>) {
        for column in &self.columns {
            column.kind.encode(cell(&column.name), out);
        }
    }

    /// Returns a number to be learnt as a model learns it: `(score - mean) / std`.
    pub fn standardized(&self, score: f32) -> f32 {
        match self.target {
            Some([mean, std]) => ((f64::from(score) - mean) / std) as f32,
            None => score,
        }
    }

    /// Returns what a model predicts in the unit of the data: `output * std + mean`.
    pub fn given_back(&self, output: f32) -> f32 {
        match self.target {
            Some([mean, std]) => (f64::from(output) * std + mean) as f32,
            None => output,
        }
    }

    /// Writes the schema beside a model.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let mut json = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::internal(format!("the columns of a table cannot be written as JSON ({error})")))?;
        json.push(b'\n');
        write_file(&dir.join(FILE), &json)
    }

    /// Reads the schema beside a model; none where there is no such file.
    ///
    /// # Errors
    /// A file that cannot be read, or is no schema.
    pub fn load(dir: &Path) -> Result<Option<TableSchema>> {
        let path = dir.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
        let parsed = serde_json::from_slice(&bytes).map_err(|error| error.to_string());
        let read = parsed.and_then(|schema: TableSchema| schema.check().map(|()| schema));
        read.map(Some).map_err(|fault| {
            Error::user(format!(
                "{} does not describe the columns of a table ({fault}); restore that of the model",
                path.display()
            ))
        })
    }

    /// Refuses what no table gives.
    fn check(&self) -> std::result::Result<(), String> {
        let are_scale = |mean: f64, std: f64| mean.is_finite() && std.is_finite() && std > 0.0;
        if self.columns.is_empty() {
            return Err("it has no columns".to_string());
        }
        for (at, TableColumn { name, kind }) in self.columns.iter().enumerate() {
            let is_right = match kind {
                ColumnKind::Number { mean, std, .. } | ColumnKind::Date { mean, std, .. } => are_scale(*mean, *std),
                ColumnKind::Category { values } => values.len() <= MOST_VALUES,
            };
            if !is_right {
                return Err(format!("the column {} has no scale", quoted(name)));
            }
            if self.columns[..at].iter().any(|other| other.name == *name) {
                return Err(format!("the column {} is there twice", quoted(name)));
            }
        }
        match self.target {
            Some([mean, std]) if !are_scale(mean, std) => Err("its target has no scale".to_string()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> TableSchema {
        let column = |name: &str, kind| TableColumn {
            name: name.to_string(),
            kind,
        };
        TableSchema {
            columns: vec![
                column(
                    "age",
                    ColumnKind::Number {
                        mean: 30.0,
                        std: 10.0,
                        is_missing_marked: true,
                    },
                ),
                column(
                    "city",
                    ColumnKind::Category {
                        values: vec!["Oslo".into(), "".into()],
                    },
                ),
                column(
                    "since",
                    ColumnKind::Date {
                        mean: 19_783.0,
                        std: 0.5,
                        is_missing_marked: false,
                    },
                ),
            ],
            label: "price".to_string(),
            target: Some([100.0, 20.0]),
        }
    }

    #[test]
    fn cells_become_numbers() {
        let schema = schema();
        let encoded = |row: [Option<&str>; 3]| {
            let mut out = vec![9.0];
            schema.encode(&row, &mut out);
            assert_eq!(out.len(), 1 + schema.width());
            out.split_off(1)
        };
        assert_eq!(
            encoded([Some(" 45 "), Some("Oslo"), Some("2024-03-01 12:00")]),
            [1.5, 0.0, 1.0, 0.0, 0.0, 1.0]
        );
        assert_eq!(encoded([None, Some("NA"), None]), [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
        assert_eq!(
            encoded([Some("old"), Some("Rome"), Some("soon")]),
            [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
        );
        let mut named = Vec::new();
        schema.encode_named(|name| (name == "age").then_some("1e300"), &mut named);
        assert_eq!(named, [FARTHEST, 0.0, 0.0, 1.0, 0.0, 0.0]);
        assert_eq!(
            schema.element_names(),
            [
                "age",
                "age is missing",
                "city=Oslo",
                "city is missing",
                "city is another value",
                "since"
            ]
        );
    }

    #[test]
    fn scores_go_to_the_scale_of_the_model_and_back() {
        let schema = schema();
        assert_eq!((schema.standardized(150.0), schema.given_back(2.5)), (2.5, 150.0));
        let classes = TableSchema { target: None, ..schema };
        assert_eq!((classes.standardized(3.0), classes.given_back(3.0)), (3.0, 3.0));
    }

    #[test]
    fn a_saved_schema_is_read_as_it_was_and_a_damaged_one_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(TableSchema::load(dir.path()).unwrap(), None);
        let schema = TableSchema {
            target: Some([0.1 + 0.2, 1.0 / 3.0]),
            ..schema()
        };
        schema.save(dir.path()).unwrap();
        assert_eq!(TableSchema::load(dir.path()).unwrap(), Some(schema));
        let path = dir.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        for (from, to, fault) in [
            ("\"std\": 10.0", "\"std\": 0.0", "the column 'age' has no scale"),
            ("\"city\"", "\"age\"", "the column 'age' is there twice"),
            ("\"date\"", "\"day\"", "unknown variant `day`"),
            ("\"label\"", "\"lable\"", "unknown field `lable`"),
        ] {
            fs::write(&path, text.replace(from, to)).unwrap();
            let error = TableSchema::load(dir.path()).unwrap_err().to_string();
            assert!(
                error.contains("table.json does not describe the columns of a table"),
                "{error}"
            );
            assert!(error.contains(fault), "{error}");
        }
    }
}
