//! Tables of numbers and categories, with a class or a number to be learnt in one column.
//!
//! ```text
//! CSV, TSV, JSON lines, Parquet, memory ──▶ Table ──▶ TableBatches ──▶ Batch, Batch
//!                                            └── TableSchema ──▶ TableRows (rows to be predicted)
//! ```
//!
//! - [`Table::read`] finds the column to be learnt, the columns to learn from and the splits.
//! - [`TableSchema`] says how the cells of a row become numbers. It is kept beside the model.
//! - [`TableBatches`] is a [`Source`](crate::Source).
//! - [`TableRows`] reads rows without labels.

mod batches;
pub(crate) mod cells;
pub(crate) mod columns;
mod header;
pub(crate) mod label;
mod labelled_files;
mod learn;
mod options;
mod parquet_cells;
mod part;
pub(crate) mod profile;
mod read;
mod rows;
mod schema;
mod target;

#[cfg(test)]
mod tests;

pub use self::batches::TableBatches;
pub use self::options::TableOptions;
pub use self::part::TablePart;
pub use self::read::Table;
pub use self::rows::{TableRow, TableRows};
pub use self::schema::{ColumnKind, TableColumn, TableSchema};
pub use crate::table_in_memory::{ColumnValues, TableInMemory};
