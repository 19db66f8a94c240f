//! Rows of a table that are to be predicted.

use std::path::Path;
use std::sync::Arc;

use lessen_base::Result;

use super::cells::json_row;
use super::labelled_files::{open, places};
use super::schema::TableSchema;
use crate::cell_row::{CellIter, CellRow};
use crate::record::Record;

/// A row to be predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// Its elements, as many as the schema says.
    pub values: Vec<f32>,
    /// The line with all of its columns.
    pub record: Record,
}

/// The rows of a file in order, as a model sees them; the column to be learnt may be missing. After an error there are
/// none.
pub struct TableRows {
    rows: CellIter,
    /// The columns of the schema in the file.
    at: Vec<usize>,
    schema: TableSchema,
    has_failed: bool,
}

impl TableRows {
    /// Opens a file (CSV, TSV, JSON lines or Parquet).
    ///
    /// # Errors
    /// A missing, empty or damaged file, and one that lacks a column of the schema.
    pub fn open(path: &Path, schema: &TableSchema) -> Result<TableRows> {
        let names: Vec<String> = schema.columns.iter().map(|column| column.name.clone()).collect();
        let opened = open(path, &names, &[])?;
        Ok(TableRows {
            at: places(path, &opened, &names)?,
            rows: opened.rows,
            schema: schema.clone(),
            has_failed: false,
        })
    }

    /// Reads an object of JSON, whose fields are columns; a field that is missing is a missing value. `file` and its
    /// line `line` name the place in messages.
    ///
    /// # Errors
    /// No object of JSON.
    pub fn of_json(file: &Path, line: usize, text: &str, schema: &TableSchema) -> Result<TableRow> {
        let names: Arc<[String]> = schema.columns.iter().map(|column| column.name.clone()).collect();
        let row = json_row(file, &names, line, text)?;
        let at: Vec<usize> = (0..names.len()).collect();
        Ok(encoded(row, &at, schema))
    }
}

impl Iterator for TableRows {
    type Item = Result<TableRow>;

    fn next(&mut self) -> Option<Result<TableRow>> {
        if self.has_failed {
            return None;
        }
        let row = self.rows.next()?;
        self.has_failed = row.is_err();
        Some(row.map(|row| encoded(row, &self.at, &self.schema)))
    }
}

fn encoded(row: CellRow, at: &[usize], schema: &TableSchema) -> TableRow {
    let cells: Vec<Option<&str>> = at.iter().map(|column| Some(&row.cells[*column][..])).collect();
    let mut values = Vec::with_capacity(schema.width());
    schema.encode(&cells, &mut values);
    TableRow {
        values,
        record: row.record,
    }
}
