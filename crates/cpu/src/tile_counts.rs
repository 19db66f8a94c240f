//! Counts of the tiles and scores that ReLU attention computes and leaves out.

/// Counts of the tiles, scores and weights of ReLU attention; a tile has at most 64 queries and 64 keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TileCounts {
    /// Tiles in which a query sees a key.
    pub tiles: u64,
    /// Tiles whose scores are not computed, since a bound shows that none is above zero.
    pub skipped: u64,
    /// Tiles whose scores are computed and are all zeros, so that the product with values is left out.
    pub empty: u64,
    /// Tiles with so few weights that are not zero that sums over these weights replace the products.
    pub sparse: u64,
    /// Scores of queries with the keys that they see.
    pub scores: u64,
    /// Scores that are not computed: neither their products nor their biases.
    pub skipped_scores: u64,
    /// Weights that are not zero.
    pub nonzeros: u64,
}

impl TileCounts {
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
