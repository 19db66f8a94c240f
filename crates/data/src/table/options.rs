//! How a table is to be read.

use std::path::PathBuf;

use super::schema::TableSchema;
use crate::held_out_by::HeldOutBy;
use crate::labels::Problem;

/// How a table is to be read.
#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    /// The name of the column to be learnt; by default `label`, `target`, `class` and the like, or else the last one.
    pub target: Option<String>,
    /// The names of the columns to learn from; by default all others that say something.
    pub inputs: Option<Vec<String>>,
    /// Whether classes or numbers are learnt; by default numbers where they have fractions or more than 20 values.
    pub problem: Option<Problem>,
    /// A file, or files with a pattern for their path, for the split `dev`; over that of the folder.
    pub dev: Option<PathBuf>,
    /// The same for the split `test`.
    pub test: Option<PathBuf>,
    /// Where there is no split `dev`, the share of the training split that is kept for it, in `(0, 1)`.
    pub held_out: f64,
    /// Which rows these are: of every class its share, or which groups.
    pub held_out_seed: u64,
    /// The column by which they are held out. A group is not learnt from, but where it is one of the inputs that are
    /// named.
    pub held_out_by: HeldOutBy,
    /// Whether in place of a share all rows are the split `dev`, where there is none.
    pub whole: bool,
    /// The classes of the model that the data is for, in order; `class.txt` goes before them.
    pub classes: Option<Vec<String>>,
    /// The columns of the model that the data is for; by default they are learnt from the training rows.
    pub schema: Option<TableSchema>,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            target: None,
            inputs: None,
            problem: None,
            dev: None,
            test: None,
            held_out: 0.1,
            held_out_seed: 1,
            held_out_by: HeldOutBy::Share,
            whole: false,
            classes: None,
            schema: None,
        }
    }
}
