//! The lines of a task's file with labels, read one after another.

use std::path::Path;
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::files::empty;
use crate::glue_task::{GlueTask, Layout};
use crate::lines::Lines;
use crate::raw_label::RawLabel;
use crate::row::Row;

impl GlueTask {
    /// The rows of a file, each with its label as it is written.
    ///
    /// # Errors
    /// A missing or empty file and a missing column; as rows a line with a wrong number of columns and one that is not
    /// valid UTF-8.
    pub(crate) fn rows(self, path: &Path) -> Result<impl Iterator<Item = Result<Row>> + use<>> {
        let Layout {
            first,
            second,
            label,
            columns,
            ..
        } = self.layout();
        let (file, mut lines): (Arc<Path>, _) = (path.into(), Lines::open(path)?.peekable());
        if lines.peek().is_none() {
            return Err(empty(path));
        }
        let header: Vec<String> = match columns {
            Some(columns) => columns.iter().map(|column| column.to_string()).collect(),
            None => {
                let (_, line) = lines.next().transpose()?.unwrap_or_default();
                line.split('\t').map(|column| column.trim().to_string()).collect()
            }
        };
        let column = |name: &str| {
            header.iter().position(|column| column == name).ok_or_else(|| {
                let (path, task) = (path.display(), self.name());
                Error::user(format!(
                    "{path} line 1 names no column '{name}'; use the files of {task} as distributed"
                ))
            })
        };
        let (first, label) = (column(first)?, column(label)?);
        let second = second.map(column).transpose()?;
        let wanted = header.len();
        // Some lines of QQP are truncated; reference implementations skip them.
        let is_cut = move |found: usize| self == GlueTask::Qqp && found < wanted;
        Ok(lines.filter_map(move |line| {
            let (line, text) = match line {
                Ok(line) => line,
                Err(error) => return Some(Err(error)),
            };
            let cells: Vec<&str> = text.split('\t').collect();
            if is_cut(cells.len()) {
                return None;
            }
            let cell = |column: usize| cells.get(column).copied().unwrap_or_default();
            let row = Row {
                text: cell(first).to_string(),
                text_pair: second.map(|second| cell(second).to_string()),
                label: Some(RawLabel::One(cell(label).trim().to_string())),
                ..Row::at(file.clone(), line)
            };
            if cells.len() == wanted {
                Some(Ok(row))
            } else {
                Some(Err(row.error(&format!(
                    "has {} columns instead of {wanted}; restore the file or the line",
                    cells.len()
                ))))
            }
        }))
    }
}
