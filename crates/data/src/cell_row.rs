//! A line of a table with all of its cells.

use lessen_base::Result;

use crate::record::Record;

/// A line of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CellRow {
    /// From 1.
    pub(crate) line: usize,
    /// A cell for each column; the empty text where there is nothing.
    pub(crate) cells: Vec<String>,
    /// The line as it was read.
    pub(crate) record: Record,
}

/// Lines one after another; after an error there are none.
pub(crate) type CellIter = Box<dyn Iterator<Item = Result<CellRow>>>;
