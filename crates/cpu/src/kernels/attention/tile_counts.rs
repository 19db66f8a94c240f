//! Counts of what ReLU attention leaves out.

use super::head::{Block, Head};
use super::tile::Tile;

/// What ReLU attention computes and leaves out, in tiles of at most 64 queries and 64 keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TileCounts {
    /// Tiles in which a query sees a key.
    pub tiles: u64,
    /// Tiles whose scores are not computed, since a bound shows that none is above zero.
    pub skipped: u64,
    /// Tiles whose scores are computed and are all zeros, so that the product with values is left out.
    pub empty: u64,
    /// Tiles with so few weights that sums over these replace the products.
    pub sparse: u64,
    /// Scores of queries and keys that they see.
    pub scores: u64,
    /// Those that are not computed: neither their products nor their biases.
    pub skipped_scores: u64,
    /// Weights that are not zero.
    pub nonzeros: u64,
}

/// What a tile turned out to be.
#[derive(Clone, Copy)]
pub(super) enum Found {
    /// Not computed.
    Skipped,
    /// This many weights that are not zero, which were summed one by one or not.
    NonZeros { n: usize, few: bool },
}

impl TileCounts {
    /// Counts a tile.
    pub(super) fn add_tile(&mut self, head: &Head, block: Block, tile: &Tile, found: Found) {
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

    /// The sum of two counts.
    pub fn plus(&self, other: &TileCounts) -> TileCounts {
        TileCounts {
            tiles: self.tiles + other.tiles,
            skipped: self.skipped + other.skipped,
            empty: self.empty + other.empty,
            sparse: self.sparse + other.sparse,
            scores: self.scores + other.scores,
            skipped_scores: self.skipped_scores + other.skipped_scores,
            nonzeros: self.nonzeros + other.nonzeros,
        }
    }
}
