//! How attention is cut: blocks of queries and tiles of keys.

/// Queries in a block at most, one in each lane.
pub(super) const BLOCK: usize = 64;

/// Keys in a tile at most.
pub(super) const TILE: usize = 64;

/// Queries that lie in the lanes of a vector.
#[derive(Clone, Copy)]
pub(super) struct QueryBlock {
    /// The first query.
    pub(super) first: usize,
    /// Number of queries.
    pub(super) n: usize,
}
