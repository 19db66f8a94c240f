//! Rows of tiles and of slices. They follow from the number of rows alone, so that no bit depends on threads, blocks or
//! the machine.

/// Rows of one tile of many: products and sums over rows are cut at multiples of it, whatever row block a row group
/// runs in, so that their bits depend on shapes alone.
const TILE_ROWS: usize = 128;

/// The most rows that are one tile of products and of sums. Such products and sums are cut by columns, so that the
/// shared matrix is packed once, and sums have no parts.
const ONE_TILE: usize = 512;

/// Whether the rows of a product are one tile.
pub(crate) fn is_one_tile(rows: usize) -> bool {
    rows <= ONE_TILE
}

/// Rows of one tile of a row group with products or sums. It depends on the number of rows alone: the same operation
/// may be in another row group where it is recomputed. Between one tile and many, the number of tiles is a multiple of
/// 4 and the tiles have about the same size, so that no worker waits for long; their size is a multiple of 16 rows
/// where that does not change the number of tiles.
pub(crate) fn tile_rows(rows: usize) -> usize {
    if rows <= ONE_TILE {
        return rows.max(1);
    }
    if rows > 16 * TILE_ROWS {
        return TILE_ROWS;
    }
    let tiles = 4 * rows.div_ceil(5 * TILE_ROWS);
    let tile = |multiple: usize| rows.div_ceil(tiles).next_multiple_of(multiple);
    let is_even = |multiple: &usize| rows.div_ceil(tile(*multiple)) == tiles;
    tile([16, 8, 4, 2].into_iter().find(is_even).unwrap_or(1))
}

/// Rows of a slice of a sum over rows. All sums of more rows are added up slice by slice.
pub(crate) const SLICE_ROWS: usize = 1024;

/// The most slices of the rows that a plan computes a stage in.
const MOST_SLICES: usize = 8;

/// Number of slices in which a plan may compute a stage of `rows` rows, if it may: each is made of whole slices of
/// sums, with the same tiles. Sums over rows are added up slice by slice, so that they have the same bits in such
/// plans.
pub(crate) fn slices(rows: usize) -> Option<usize> {
    let tile = tile_rows(rows);
    let is_even = |&slices: &usize| {
        let slice = rows / slices;
        rows.is_multiple_of(slices) && slice.is_multiple_of(SLICE_ROWS) && tile_rows(slice) == tile
    };
    (2..=MOST_SLICES)
        .rev()
        .find(is_even)
        .filter(|_| SLICE_ROWS.is_multiple_of(tile))
}
