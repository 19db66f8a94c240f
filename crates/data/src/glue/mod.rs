//! The tasks of the GLUE benchmark (Wang et al. 2019), read from the TSV files as distributed.
//!
//! Columns are found by the names in the header line; CoLA has none, so its columns are fixed. Fields are separated by
//! tabs and not quoted.

mod rows;
mod submission;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::columns::Columns;
use crate::examples::{Dataset, Examples};
use crate::files::quoted;
use crate::labels::{LabelKind, Labels};
use crate::raw_label::RawLabel;
use crate::rows::{Place, Rows};
use crate::unlabelled::LeftOut;

use crate::glue_task::SCORES;

pub use crate::glue_task::GlueTask;
pub use submission::TestSplit;

impl GlueTask {
    /// Reads `train.tsv` and `dev.tsv` (MNLI: `dev_matched.tsv` and, if present, `dev_mismatched.tsv`) from `dir` or
    /// from its subfolder named after the task. GLUE's test files have no labels; [`GlueTask::read_tests`] reads them.
    ///
    /// # Errors
    /// A missing, empty or damaged file; a missing column; a line with a wrong number of columns; an unknown label. The
    /// message names file and line.
    pub fn read(self, dir: &Path) -> Result<Dataset> {
        let (dir, layout) = (self.folder(dir)?, self.layout());
        let more = layout.more.filter(|(_, file)| dir.join(file).exists());
        let more = more.map(|(name, file)| Ok((name, self.read_split(&dir.join(file))?)));
        Ok(Dataset {
            train: self.read_split(&dir.join("train.tsv"))?,
            dev: self.read_split(&dir.join(layout.dev))?,
            is_whole: false,
            more: more.into_iter().collect::<Result<_>>()?,
            target: self.target(),
            metrics: self.metrics(),
            remarks: Vec::new(),
        })
    }

    fn folder(self, dir: &Path) -> Result<PathBuf> {
        let inner = dir.join(self.name());
        match [dir, &inner]
            .into_iter()
            .find(|folder| folder.join("train.tsv").exists())
        {
            Some(folder) => Ok(folder.to_path_buf()),
            None => Err(Error::user(format!(
                "there is no train.tsv in {} or {}; name the folder with the files of {}",
                dir.display(),
                inner.display(),
                self.name()
            ))),
        }
    }

    fn read_split(self, path: &Path) -> Result<Examples> {
        let (layout, target) = (self.layout(), self.target());
        let rows = Rows {
            place: Place::Glue(self, path.to_path_buf()),
            columns: Columns::default(),
            with_label: true,
            left_out: LeftOut::Nothing,
        };
        let Examples { mut labels, .. } = Examples::unlabelled(vec![], &target);
        for row in rows.iter() {
            let row = row?;
            let cell = match &row.label {
                Some(RawLabel::One(label)) => label.as_str(),
                _ => "",
            };
            match (&mut labels, &target) {
                (Labels::Classes(labels), LabelKind::Classes(names)) => {
                    let class = if layout.by_name {
                        names.iter().position(|name| name == cell)
                    } else {
                        cell.parse().ok().filter(|&class: &usize| class < names.len())
                    };
                    let wanted = || {
                        if layout.by_name {
                            names.join(", ")
                        } else {
                            format!("0 to {}", names.len() - 1)
                        }
                    };
                    let class = class.ok_or_else(|| {
                        row.error(&format!("has the label {}; the labels are {}", quoted(cell), wanted()))
                    })?;
                    labels.push(class as i32);
                }
                (Labels::Scores(scores), _) => {
                    let score = cell.parse().ok().filter(|score| SCORES.contains(score));
                    let (least, most) = (SCORES.start(), SCORES.end());
                    let wrong = || {
                        row.error(&format!(
                            "has the score {}; write a number from {least} to {most}",
                            quoted(cell)
                        ))
                    };
                    scores.push(score.ok_or_else(wrong)?);
                }
                (Labels::Classes(_) | Labels::Sets(_), _) => unreachable!("no task has other labels than its kind"),
            }
        }
        if labels.is_empty() {
            return Err(Error::user(format!(
                "{} has a header but no line of data; restore it",
                path.display()
            )));
        }
        Ok(Examples::from_rows(Arc::new(rows), None, labels))
    }
}

#[cfg(test)]
mod tests;
