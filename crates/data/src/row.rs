//! A row of labelled data, and how the cells of a table make one.

use std::path::Path;
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::columns::{LabelAt, Positions};
use crate::files::{line_word, quoted};
use crate::raw_label::RawLabel;
use crate::record::Record;

/// Rows one after another.
pub(crate) type RowIter = Box<dyn Iterator<Item = Result<Row>>>;

/// A text, or a pair of texts, with its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) file: Arc<Path>,
    /// From 1; 0 where the file is a single text.
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) text_pair: Option<String>,
    /// None where labels are not asked for and there is none.
    pub(crate) label: Option<RawLabel>,
    /// The name of the label's column, where columns have names.
    pub(crate) column: Option<Arc<str>>,
    /// The line with all of its columns, where labels are not asked for.
    pub(crate) record: Option<Record>,
    /// The value by which it is held out, where a column for that is asked for.
    pub(crate) held_out_by: Option<String>,
}

impl Row {
    /// A line of a file, without anything in it; 0 where the file is a single text.
    pub(crate) fn at(file: Arc<Path>, line: usize) -> Row {
        Row {
            file,
            line,
            text: String::new(),
            text_pair: None,
            label: None,
            column: None,
            record: None,
            held_out_by: None,
        }
    }

    /// An error at this row.
    pub(crate) fn error(&self, what: &str) -> Error {
        Error::user(format!("{} {what}", self.place()))
    }

    /// The file, and the line where it has several rows.
    pub(crate) fn place(&self) -> String {
        let file = self.file.display();
        match self.line {
            0 => file.to_string(),
            line => format!("{file} {} {line}", line_word(&self.file)),
        }
    }

    /// The label's place for a message: ` in the column 'score'`, or nothing.
    pub(crate) fn in_column(&self) -> String {
        let column = self.column.as_deref();
        column.map_or(String::new(), |column| format!(" in the column {}", quoted(column)))
    }
}

/// Where texts and labels of a file stand, and what their columns are called.
pub(crate) struct Table {
    file: Arc<Path>,
    pub(crate) at: Positions,
    /// The name of the label's column.
    column: Option<Arc<str>>,
    /// The names of the columns of 0 and 1.
    labels: Arc<[String]>,
    /// The names of all columns, where records are kept in place of labels.
    kept: Option<Arc<[String]>>,
}

impl Table {
    /// A file with these names of columns; none where they are numbered.
    pub(crate) fn new(file: Arc<Path>, at: Positions, names: &[String]) -> Table {
        let name = |column: usize| names.get(column).map_or("", |name| name.trim());
        let (column, labels) = match &at.label {
            Some(LabelAt::One(column)) => (Some(*column), &[][..]),
            Some(LabelAt::Each(columns)) => (None, &columns[..]),
            None => (None, &[][..]),
        };
        Table {
            column: column.map(name).filter(|name| !name.is_empty()).map(Arc::from),
            labels: labels.iter().map(|column| name(*column).to_string()).collect(),
            file,
            at,
            kept: None,
        }
    }

    /// The same table with records of all of its columns, which have these names, in place of labels.
    pub(crate) fn keeping(self, names: impl IntoIterator<Item = String>) -> Table {
        Table {
            kept: Some(names.into_iter().collect()),
            ..self
        }
    }

    /// The names of all columns, where records are kept in place of labels.
    pub(crate) fn kept(&self) -> Option<&Arc<[String]>> {
        self.kept.as_ref()
    }

    /// The row of a line with these cells.
    pub(crate) fn row(&self, line: usize, cell: impl Fn(usize) -> String) -> Result<Row> {
        let mut row = self.without_label(line, cell(self.at.text), self.at.text_pair.map(&cell));
        if let Some(names) = &self.kept {
            let cells = (0..names.len()).map(cell).collect();
            row.record = Some(Record::of_cells(names, line, cells));
            return Ok(row);
        }
        row.label = match &self.at.label {
            Some(LabelAt::One(column)) => Some(RawLabel::One(cell(*column).trim().to_string())),
            Some(LabelAt::Each(columns)) => Some(self.flags(&row, columns.iter().map(|column| cell(*column)))?),
            None => None,
        };
        row.held_out_by = self.at.held_out_by.map(cell);
        Ok(row)
    }

    /// A row without its label.
    pub(crate) fn without_label(&self, line: usize, text: String, text_pair: Option<String>) -> Row {
        Row {
            text,
            text_pair,
            column: self.column.clone(),
            ..Row::at(self.file.clone(), line)
        }
    }

    /// The label of a row with these words in its columns of 0 and 1.
    pub(crate) fn flags(&self, row: &Row, words: impl Iterator<Item = String>) -> Result<RawLabel> {
        let flags = words.zip(self.labels.iter()).map(|(word, name)| {
            flag(&word).ok_or_else(|| {
                row.error(&format!(
                    "has {} in the column {}; write 0 or 1, or name the columns of labels with data.label",
                    quoted(&word),
                    quoted(name)
                ))
            })
        });
        Ok(RawLabel::Columns(self.labels.clone(), flags.collect::<Result<_>>()?))
    }
}

/// The refusal of a row with another number of cells than the first one.
pub(crate) fn other_count(file: &Path, line: usize, (found, wanted): (usize, usize), remedy: &str) -> Error {
    Error::user(format!(
        "{} line {line} has {found} columns instead of {wanted}; {remedy}",
        file.display()
    ))
}

/// Whether a word in a column of 0 and 1 is 1.
fn flag(word: &str) -> Option<bool> {
    match word.trim() {
        "1" | "1.0" | "true" | "True" | "TRUE" => Some(true),
        "0" | "0.0" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}
