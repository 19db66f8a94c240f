//! A table in memory.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::cell_row::{CellIter, CellRow};
use crate::files::quoted;
use crate::record::Record;

/// Rows with named columns in memory. A copy shares them.
#[derive(Clone, Debug, PartialEq)]
pub struct TableInMemory {
    names: Arc<[String]>,
    columns: Arc<[ColumnValues]>,
    rows: usize,
}

/// The values of a column, one for each row.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValues {
    /// Numbers; one that is not finite is missing.
    Numbers(Vec<f64>),
    /// Texts, dates and categories; an empty one is missing.
    Texts(Vec<String>),
    /// Several labels for each row.
    Lists(Vec<Vec<String>>),
}

impl ColumnValues {
    fn len(&self) -> usize {
        match self {
            ColumnValues::Numbers(numbers) => numbers.len(),
            ColumnValues::Texts(texts) => texts.len(),
            ColumnValues::Lists(lists) => lists.len(),
        }
    }
}

impl TableInMemory {
    /// Makes a table of its columns.
    ///
    /// # Errors
    /// No rows; columns of one name, or with other numbers of rows.
    pub fn new(columns: Vec<(String, ColumnValues)>) -> Result<TableInMemory> {
        let (names, columns): (Vec<String>, Vec<ColumnValues>) = columns.into_iter().unzip();
        let rows = columns.first().map_or(0, ColumnValues::len);
        if rows == 0 {
            return Err(Error::user("a table in memory has no rows; give it at least one"));
        }
        for (at, (name, column)) in names.iter().zip(&columns).enumerate() {
            if names[..at].contains(name) {
                return Err(Error::user(format!(
                    "a table in memory has two columns called {}; give each a name of its own",
                    quoted(name)
                )));
            }
            if column.len() != rows {
                return Err(Error::user(format!(
                    "a table in memory has {rows} rows in the column {} and {} in {}; give every column a value for each row",
                    quoted(&names[0]),
                    column.len(),
                    quoted(name)
                )));
            }
        }
        Ok(TableInMemory {
            names: names.into(),
            columns: columns.into(),
            rows,
        })
    }

    /// Makes a table of texts, or of pairs of texts, with their labels: the columns `text`, `text_pair` and `label`.
    ///
    /// # Errors
    /// No texts; another number of labels; pairs beside single texts.
    pub fn of_texts(texts: Vec<(String, Option<String>)>, labels: ColumnValues) -> Result<TableInMemory> {
        let (first, second): (Vec<String>, Vec<Option<String>>) = texts.into_iter().unzip();
        let pairs: Vec<String> = second.iter().flatten().cloned().collect();
        let mut columns = vec![("text".to_string(), ColumnValues::Texts(first))];
        if !pairs.is_empty() {
            columns.push(("text_pair".to_string(), ColumnValues::Texts(pairs)));
        }
        columns.push(("label".to_string(), labels));
        TableInMemory::new(columns)
    }

    /// The names of the columns.
    pub(crate) fn names(&self) -> &Arc<[String]> {
        &self.names
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// A value as a cell of a file has it.
    pub(crate) fn cell(&self, row: usize, column: usize) -> String {
        match &self.columns[column] {
            ColumnValues::Numbers(numbers) if numbers[row].is_finite() => numbers[row].to_string(),
            ColumnValues::Numbers(_) => String::new(),
            ColumnValues::Texts(texts) => texts[row].clone(),
            ColumnValues::Lists(lists) => lists[row].join(","),
        }
    }

    /// The labels of a row in a column of lists.
    pub(crate) fn list(&self, row: usize, column: usize) -> Option<&[String]> {
        match &self.columns[column] {
            ColumnValues::Lists(lists) => Some(&lists[row]),
            ColumnValues::Numbers(_) | ColumnValues::Texts(_) => None,
        }
    }

    /// All rows with all of their cells.
    pub(super) fn cells(&self) -> CellIter {
        let own = self.clone();
        Box::new((0..self.rows).map(move |row| {
            let cells: Vec<String> = (0..own.names.len()).map(|column| own.cell(row, column)).collect();
            Ok(CellRow {
                line: row + 1,
                record: Record::of_cells(&own.names, row + 1, cells.clone()),
                cells,
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_do_not_go_together_are_refused() {
        let texts = |texts: &[&str]| ColumnValues::Texts(texts.iter().map(|text| text.to_string()).collect());
        let refused = |columns: &[(&str, ColumnValues)]| {
            let columns = columns.iter().map(|(name, values)| (name.to_string(), values.clone()));
            TableInMemory::new(columns.collect()).unwrap_err().to_string()
        };
        assert_eq!(refused(&[]), "a table in memory has no rows; give it at least one");
        assert_eq!(refused(&[("a", texts(&[]))]), refused(&[]));
        assert_eq!(
            refused(&[("a", texts(&["x", "y"])), ("b", ColumnValues::Numbers(vec![1.0]))]),
            "a table in memory has 2 rows in the column 'a' and 1 in 'b'; give every column a value for each row"
        );
        assert!(refused(&[("a", texts(&["x"])), ("a", texts(&["y"]))]).contains("two columns called 'a'"));
        let pair = |second: Option<&str>| ("x".to_string(), second.map(str::to_string));
        let mixed = TableInMemory::of_texts(vec![pair(None), pair(Some("y"))], texts(&["0", "1"]));
        assert!(mixed.unwrap_err().to_string().contains("and 1 in 'text_pair'"));
    }

    #[test]
    fn cells_are_as_in_files() {
        let table = TableInMemory::new(vec![
            ("n".into(), ColumnValues::Numbers(vec![1.0, 0.1, f64::NAN])),
            (
                "w".into(),
                ColumnValues::Texts(vec!["a".into(), "b, c".into(), String::new()]),
            ),
        ]);
        let rows: Vec<Vec<String>> = table.unwrap().cells().map(|row| row.unwrap().cells).collect();
        assert_eq!(rows, [["1", "a"], ["0.1", "b, c"], ["", ""]]);
    }
}
