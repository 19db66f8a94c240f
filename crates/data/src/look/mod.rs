//! A look at data before anything is chosen for it: what lies at a path, what its columns are for, what can be learnt
//! from it, and what is odd about it.
//!
//! Files are read one row after another. Texts are kept as hashes alone, so that a million rows fit in memory.

mod comma;
mod counts;
mod histogram;
mod layout;
mod of_others;
mod of_rows;
mod problems;
mod repeats;
mod role;
mod roles;
mod screen;
mod script;
mod several;
mod task;
mod texts;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use lessen_base::Result;
use serde::Serialize;
use serde_json::Value;

pub use self::counts::ClassLook;
pub use self::histogram::{BINS, Histogram, Lengths, NumberLook};
pub use self::layout::FileLayout;
pub use self::repeats::Repeats;
pub use self::role::{ColumnLook, Role};
pub use self::task::Task;
pub use self::texts::TextLook;
use crate::labels::Problem;

/// How data is looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct LookOptions {
    /// The column of the text.
    pub text: Option<String>,
    /// The column of the second text of a pair.
    pub text_pair: Option<String>,
    /// The column to be learnt.
    pub label: Option<String>,
    /// What the labels are.
    pub problem: Option<Problem>,
    /// A file, or files with a pattern for their path, for the split `dev`; over that of the folder.
    pub dev: Option<PathBuf>,
    /// The same for the split `test`.
    pub test: Option<PathBuf>,
    /// Rows by which the roles of columns are decided; all rows are counted.
    pub sample: usize,
}

impl Default for LookOptions {
    fn default() -> LookOptions {
        LookOptions {
            text: None,
            text_pair: None,
            label: None,
            problem: None,
            dev: None,
            test: None,
            sample: 100_000,
        }
    }
}

/// Examples of each split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SplitRows {
    /// Examples for training, or all of them where there are no splits.
    pub train: usize,
    /// Examples of the split `dev`, if there is one.
    pub dev: Option<usize>,
    /// Examples of the split `test`, if there is one.
    pub test: Option<usize>,
}

/// What a look at data found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Look {
    /// Where the data is.
    pub path: String,
    /// How it is laid out.
    pub layout: FileLayout,
    /// The columns of files with rows.
    pub columns: Vec<ColumnLook>,
    /// What can be learnt.
    pub task: Task,
    /// Why that.
    pub reason: String,
    /// Whether texts come in pairs.
    pub has_pairs: bool,
    /// Keys of recipes for the columns that usual names do not tell, and their values.
    pub settings: Vec<(&'static str, String)>,
    /// What stands between the labels of a text that can have several.
    pub separator: Option<String>,
    /// Examples of each split.
    pub rows: SplitRows,
    /// The texts of the training split.
    pub texts: Option<TextLook>,
    /// The classes of the training split.
    pub classes: Option<ClassLook>,
    /// The numbers to be learnt of the training split.
    pub numbers: Option<NumberLook>,
    /// Training rows that repeat others.
    pub repeats: Repeats,
    /// Training rows without a text, or without any value.
    pub empty: usize,
    /// The lines of the first of them.
    pub empty_lines: Vec<usize>,
    /// Training rows without a label.
    pub unlabelled: usize,
    /// The lines of the first of them.
    pub unlabelled_lines: Vec<usize>,
    /// Texts of `dev` that are in the training split, if there is `dev`.
    pub dev_in_train: Option<usize>,
    /// Texts of `test` that are in the training split, if there is `test`.
    pub test_in_train: Option<usize>,
    /// Height and width of images; none where they differ.
    pub image_size: Option<[usize; 2]>,
    /// What is odd, a sentence each, with what to do.
    pub problems: Vec<String>,
    /// The one of them that makes training impossible.
    pub blocking: Option<String>,
}

impl Look {
    /// Looks at a file, the files that a pattern stands for, or a folder.
    ///
    /// # Errors
    /// Nothing at the path; a damaged file; a column that is asked for and is not there. The message names file, place
    /// and remedy.
    pub fn of(path: &Path, options: &LookOptions) -> Result<Look> {
        let layout = layout::layout_of(path)?;
        let mut look = Look::empty(path, layout);
        match layout {
            FileLayout::Rows | FileLayout::ClassFolders => of_rows::look(path, options, &mut look)?,
            FileLayout::Images => of_others::images(path, options, &mut look)?,
            FileLayout::Tagged => of_others::tagged(path, options, &mut look)?,
            FileLayout::Text => of_others::text(path, options, &mut look)?,
            FileLayout::Questions => of_others::questions(path, options, &mut look)?,
        }
        problems::find(&mut look);
        Ok(look)
    }

    /// A look that found nothing yet.
    fn empty(path: &Path, layout: FileLayout) -> Look {
        Look {
            path: path.display().to_string(),
            layout,
            columns: Vec::new(),
            task: Task::default(),
            reason: String::new(),
            has_pairs: false,
            settings: Vec::new(),
            separator: None,
            rows: SplitRows::default(),
            texts: None,
            classes: None,
            numbers: None,
            repeats: Repeats::default(),
            empty: 0,
            empty_lines: Vec::new(),
            unlabelled: 0,
            unlabelled_lines: Vec::new(),
            dev_in_train: None,
            test_in_train: None,
            image_size: None,
            problems: Vec::new(),
            blocking: None,
        }
    }

    /// Returns the name of the first column with a role.
    pub fn column(&self, role: Role) -> Option<&str> {
        let found = self.columns.iter().find(|column| column.role == role);
        found.map(|column| &column.name[..])
    }

    /// Returns the look in lines: one screen of at most 24 lines of 100 columns.
    pub fn to_text(&self) -> String {
        screen::text(self)
    }

    /// Returns the look as JSON, histograms included.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
