//! A block with its ways, as the composition sees it.

use super::ways::Ways;
use crate::passes::StorageFormat;

/// A block as the composition sees it.
pub(super) struct Block<'a> {
    /// Its ways.
    pub ways: &'a Ways,
    /// Ways when its entry is inverted from its output.
    pub inverted: Option<&'a Ways>,
    /// Bytes of its new entries.
    pub entry: usize,
    /// Bytes of its new entries in each storage format.
    pub rounded_entry: [usize; StorageFormat::ALL.len()],
    /// Bytes of the new entry that the next block can invert; 0 if there is none.
    pub inverted_next: usize,
    /// Bytes of later blocks' gradients that wait for their update.
    pub waiting: usize,
}
