//! Asking a model of tables about rows.

use super::logits::Logits;
use super::prediction::predicted;
use super::{SavedRun, at_once};
use lessen_base::{Error, Result};
use lessen_data::table::{TableColumn, TableSchema};
use lessen_task::goal::{Prediction, SharedGoal};
use std::borrow::Cow;

/// A cell of a row in memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A number.
    Number(f64),
    /// A text, as a file has it.
    Text(String),
    /// No value.
    Missing,
}

/// A saved model of tables that is ready to be asked, on a device.
pub struct RowPredictor {
    schema: TableSchema,
    batch: usize,
    logits: Logits,
    goal: SharedGoal,
}

impl SavedRun {
    /// Whether the model reads rows of tables.
    pub fn reads_tables(&self) -> bool {
        self.saved.reader.table().is_ok()
    }

    /// The model on a device, to be asked about rows.
    ///
    /// # Errors
    /// A model of texts or images, and one that cannot be read.
    pub fn row_predictor(&self) -> Result<RowPredictor> {
        Ok(RowPredictor {
            schema: self.saved.reader.table()?.clone(),
            batch: self.config.train.batch,
            logits: self.logits()?,
            goal: self.goal(),
        })
    }
}

impl Cell {
    /// The cell as a file has it.
    fn text(&self) -> Option<String> {
        match self {
            Cell::Number(number) => Some(number.to_string()),
            Cell::Text(text) => Some(text.clone()),
            Cell::Missing => None,
        }
    }
}

impl RowPredictor {
    /// The columns that the model reads.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Number of rows that are best asked about at once.
    pub fn at_once(&self) -> usize {
        at_once(self.batch)
    }

    /// Asks about rows in memory, each with a cell for each of the columns `names`, as [`RowPredictor::ask`] does.
    ///
    /// # Errors
    /// A column of the model that has no cells, and a row with another number of cells than there are names.
    pub fn ask_cells(&self, names: &[&str], rows: &[Vec<Cell>]) -> Result<Vec<Result<Prediction>>> {
        self.ask(&self.encoded(names, rows)?)
    }

    /// The elements that the schema makes of rows in memory, for [`RowPredictor::ask`].
    ///
    /// # Errors
    /// As [`RowPredictor::ask_cells`].
    pub fn encoded(&self, names: &[&str], rows: &[Vec<Cell>]) -> Result<Vec<Vec<f32>>> {
        let place = |column: &TableColumn| {
            let place = names.iter().position(|name| *name == column.name);
            place.ok_or_else(|| {
                let name = &column.name;
                Error::user(format!(
                    "the rows have no column {name:?}, which the model reads; add it"
                ))
            })
        };
        let places: Vec<usize> = self.schema.columns.iter().map(place).collect::<Result<_>>()?;
        if let Some((row, number)) = rows.iter().zip(1..).find(|(row, _)| row.len() != names.len()) {
            let (cells, columns) = (row.len(), names.len());
            return Err(Error::user(format!(
                "row {number} has {cells} cells, and there are {columns} columns; give a cell for each"
            )));
        }
        let encoded = rows.iter().map(|row| {
            let texts: Vec<Option<String>> = places.iter().map(|place| row[*place].text()).collect();
            let cells: Vec<Option<&str>> = texts.iter().map(Option::as_deref).collect();
            let mut values = Vec::with_capacity(self.schema.width());
            self.schema.encode(&cells, &mut values);
            values
        });
        Ok(encoded.collect())
    }

    /// Asks about rows, each the elements that the schema makes of it, in batches of `train.batch`; the answers in
    /// order. Of a row for which the model has numbers that are NaN or infinite, the answer is an error.
    ///
    /// # Errors
    /// A device that fails.
    pub fn ask(&self, rows: &[Vec<f32>]) -> Result<Vec<Result<Prediction>>> {
        let logits = self.logits(rows)?;
        Ok(logits
            .iter()
            .map(|logits| predicted(self.goal.as_ref(), logits))
            .collect())
    }

    /// The numbers that the model gives for rows, such as the logits of its classes, in batches of `train.batch`.
    ///
    /// # Errors
    /// A device that fails.
    pub fn logits(&self, rows: &[Vec<f32>]) -> Result<Vec<Vec<f32>>> {
        let (size, width) = (self.batch.max(1), self.schema.width());
        let row = |number: usize| Ok(Cow::Borrowed(&rows[number][..]));
        self.logits.of_arrays((rows.len(), size), [1, width, 1], row)
    }
}
