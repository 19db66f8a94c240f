//! Counts the tiles of ReLU attention.

use super::head::Head;
use super::query_block::QueryBlock;
use super::tile::Tile;
use crate::tile_counts::TileCounts;

/// The outcome of a tile.
#[derive(Clone, Copy)]
pub(super) enum Found {
    /// Not computed.
    Skipped,
    /// Number of weights that are not zero; `few`: whether they were summed one by one.
    NonZeros { n: usize, few: bool },
}

impl TileCounts {
    /// Counts a tile.
    pub(super) fn add_tile(&mut self, head: &Head, block: QueryBlock, tile: &Tile, found: Found) {
        let seen = |r: usize| {
            let (from, end) = head.lanes_that_see(block, tile.key(r));
            (end - from) as u64
        };
        let scores = match head.lanes_that_see(block, tile.last()).0 {
            0 => (tile.n * block.n) as u64,
            _ => (0..tile.n).map(seen).sum(),
        };
        self.tiles += 1;
        self.scores += scores;
        match found {
            Found::Skipped => {
                self.skipped += 1;
                self.skipped_scores += scores;
            }
            Found::NonZeros { n, few } => {
                self.nonzeros += n as u64;
                self.empty += u64::from(n == 0);
                self.sparse += u64::from(n > 0 && few);
            }
        }
    }
}
