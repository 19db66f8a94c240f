//! The rows of the files of a split that have a label.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::{Error, Result};

use super::cells::CellFile;
use crate::cell_row::CellRow;
use crate::cell_values::is_missing;
use crate::files::quoted;
use crate::held_out_by::HeldOutBy;
use crate::raw_label::RawLabel;
use crate::row::Row;
use crate::table_in_memory::TableInMemory;
use crate::unlabelled::Unlabelled;

/// A file of a table, or a table in memory.
#[derive(Clone, Debug)]
pub(super) enum TableFile {
    Path(PathBuf),
    /// The table, and its name in messages.
    InMemory(TableInMemory, &'static Path),
}

impl TableFile {
    /// The path, or the name in messages.
    pub(super) fn path(&self) -> &Path {
        match self {
            TableFile::Path(path) => path,
            TableFile::InMemory(_, name) => name,
        }
    }

    /// Opens it with columns of these names: inputs and others.
    pub(super) fn open(&self, inputs: &[String], others: &[&str]) -> Result<CellFile> {
        match self {
            TableFile::Path(path) => open(path, inputs, others),
            TableFile::InMemory(table, _) => Ok(CellFile {
                names: table.names().clone(),
                is_named: true,
                rows: table.cells(),
            }),
        }
    }
}

/// Files of a split, the name of the column to be learnt, and the names of the columns to learn from.
#[derive(Clone, Debug)]
pub(super) struct LabelledFiles {
    pub(super) files: Vec<TableFile>,
    pub(super) label: String,
    pub(super) inputs: Vec<String>,
    /// The column by which rows are held out.
    pub(super) held_out_by: HeldOutBy,
}

/// A row with a label.
pub(super) struct LabelledRow<'a> {
    pub(super) row: &'a CellRow,
    /// The label, and its place for messages.
    pub(super) label: Row,
    /// The columns of the inputs.
    inputs: &'a [usize],
}

impl LabelledRow<'_> {
    /// The cells of the inputs.
    pub(super) fn cells(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|column| &self.row.cells[*column][..])
    }
}

impl LabelledFiles {
    /// Calls `each` for every row with a label, in order.
    ///
    /// # Errors
    /// Those of files, a missing column, and those of `each`.
    pub(super) fn for_each(&self, mut each: impl FnMut(&LabelledRow) -> Result<()>) -> Result<Unlabelled> {
        let mut skipped = Unlabelled::default();
        for table in &self.files {
            let path = table.path();
            let file: Arc<Path> = path.into();
            let column: Arc<str> = self.label.as_str().into();
            let held_out_by = self.held_out_by.column();
            let others: Vec<&str> = held_out_by
                .map(|(name, _)| name)
                .into_iter()
                .chain([&self.label[..]])
                .collect();
            let opened = table.open(&self.inputs, &others)?;
            let label = at(path, &opened, &self.label, "data.label")?;
            let inputs = places(path, &opened, &self.inputs)?;
            let held_out_by = held_out_by
                .map(|(name, key)| at(path, &opened, name, key))
                .transpose()?;
            for row in opened.rows {
                let row = row?;
                let mut labelled = LabelledRow {
                    label: Row {
                        column: Some(column.clone()),
                        ..Row::at(file.clone(), row.line)
                    },
                    row: &row,
                    inputs: &inputs,
                };
                let cell = row.cells[label].trim();
                if is_missing(cell) {
                    skipped.add(&labelled.label);
                    continue;
                }
                labelled.label.label = Some(RawLabel::One(cell.to_string()));
                labelled.label.held_out_by = held_out_by.map(|column| row.cells[column].clone());
                each(&labelled)?;
            }
        }
        Ok(skipped)
    }

    /// The same files, of which the labels alone are needed.
    pub(super) fn without_inputs(&self) -> LabelledFiles {
        LabelledFiles {
            inputs: Vec::new(),
            ..self.clone()
        }
    }

    /// The first file, for messages.
    pub(super) fn first(&self) -> &Path {
        self.files.first().map_or(Path::new(""), TableFile::path)
    }
}

/// Opens a file that has columns of these names: inputs and others.
pub(super) fn open(path: &Path, inputs: &[String], others: &[&str]) -> Result<CellFile> {
    let wanted: Vec<&str> = inputs
        .iter()
        .map(String::as_str)
        .chain(others.iter().copied())
        .collect();
    CellFile::open(path, &wanted)
}

/// The columns of these names in a file.
pub(super) fn places(path: &Path, opened: &CellFile, names: &[String]) -> Result<Vec<usize>> {
    names.iter().map(|name| at(path, opened, name, "data.inputs")).collect()
}

/// The column of a name in a file.
pub(super) fn at(path: &Path, opened: &CellFile, name: &str, key: &str) -> Result<usize> {
    opened.column(name).ok_or_else(|| {
        let shown: Vec<String> = opened.names.iter().take(8).map(|name| quoted(name)).collect();
        let more = if opened.names.len() > shown.len() { ", ..." } else { "" };
        Error::user(format!(
            "{} has no column {} ({key}); its columns are {}{more}",
            path.display(),
            quoted(name),
            shown.join(", ")
        ))
    })
}
