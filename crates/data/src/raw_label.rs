//! Labels as files have them.

use std::sync::Arc;

/// A label as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RawLabel {
    /// One word or number.
    One(String),
    /// A list of JSON.
    Many(Vec<String>),
    /// Columns of 0 and 1: their names, and which of them are 1.
    Columns(Arc<[String]>, Vec<bool>),
}
