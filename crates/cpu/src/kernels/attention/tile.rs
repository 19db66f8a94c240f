//! Tiles of keys: the keys and values that a mask shows, one after the other, and their products with blocks of
//! queries.

use super::super::rows::Rows;
use super::head::Head;
use super::lanes::copy_row;
use super::product::{LEAST, Left, Panel, product, wide};
use super::query_block::{QueryBlock, TILE};
use crate::simd::prefetch;

/// Elements of a cache line.
const LINE: usize = 16;

/// Visible keys, ascending.
pub(super) struct Tile {
    keys: [u32; TILE],
    /// Number of keys.
    pub(super) n: usize,
}

/// Vectors of the keys of a tile, one after the other: rows of `c` elements and zeros.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    pub(super) panel: Panel,
    c: usize,
}

/// Vectors of the keys of a tile that are packed when they are first needed.
pub(super) struct Vectors {
    x: Rows<f32>,
    c: usize,
    memory: *mut f32,
    packed: Option<Packed>,
}

impl Vectors {
    /// Rows of `c` elements of `x`, with memory of [`packed_scratch`] elements.
    pub(super) fn new(x: Rows<f32>, c: usize, memory: *mut f32) -> Vectors {
        Vectors {
            x,
            c,
            memory,
            packed: None,
        }
    }

    /// The packed vectors.
    ///
    /// # Safety
    /// The rows and the memory exist.
    #[inline(always)]
    pub(super) unsafe fn packed(&mut self, tile: &Tile) -> Packed {
        if let Some(packed) = self.packed {
            return packed;
        }
        // SAFETY: passed on.
        let packed = unsafe { tile.pack(self.x, self.c, self.memory) };
        self.packed = Some(packed);
        packed
    }
}

/// Keys that lie next to each other: keys from `key` on are in rows from `row` on of the tile.
#[derive(Clone, Copy)]
pub(super) struct KeyRun {
    pub(super) row: usize,
    pub(super) key: usize,
    pub(super) n: usize,
}

/// Number of `f32` that packed vectors of `c` elements take.
pub(super) fn packed_scratch(c: usize) -> usize {
    TILE * wide(c)
}

/// The tiles of the keys that the mask of a head shows, and that come before `end`.
pub(super) struct Tiles<'a> {
    head: &'a Head,
    from: usize,
    end: usize,
}

impl<'a> Tiles<'a> {
    pub(super) fn new(head: &'a Head, end: usize) -> Tiles<'a> {
        Tiles::between(head, 0, end)
    }

    /// The tiles of keys `from..end`.
    pub(super) fn between(head: &'a Head, from: usize, end: usize) -> Tiles<'a> {
        Tiles {
            head,
            from: from.min(end),
            end,
        }
    }

    /// The next tile.
    ///
    /// # Safety
    /// The mask of the head exists.
    #[inline(always)]
    pub(super) unsafe fn next(&mut self) -> Option<Tile> {
        let mask = self.head.mask;
        let mut keys = [0; TILE];
        let mut n = 0;
        if mask.is_null() {
            n = TILE.min(self.end - self.from);
            for r in 0..TILE {
                keys[r] = (self.from + r) as u32;
            }
            self.from += n;
        } else {
            while self.from < self.end && n < TILE {
                keys[n] = self.from as u32;
                // SAFETY: the mask has a byte for each key.
                n += usize::from(unsafe { *mask.add(self.from) } != 0);
                self.from += 1;
            }
        }
        (n > 0).then_some(Tile { keys, n })
    }

    /// Asks for the rows of keys or values in one of some parts of the next tile, while there is other work. A whole
    /// tile at a time would be waited for.
    #[inline(always)]
    pub(super) fn prefetch(&self, (part, parts): (usize, usize), of: &[(Rows<f32>, usize)]) {
        if parts == 1 {
            return;
        }
        let rows = self.from + TILE * part / parts..self.from + TILE * (part + 1) / parts;
        for key in rows.start..rows.end.min(self.end) {
            for &(x, c) in of {
                prefetch_row(c, x.from(key));
            }
        }
    }
}

/// Asks for a row of `x`, unless its rows follow each other, which CPUs foresee.
#[inline(always)]
fn prefetch_row(c: usize, x: Rows<f32>) {
    if x.col == 1 && x.row > wide(c) {
        (0..c).step_by(LINE).for_each(|j| prefetch(x.ptr.wrapping_add(j)));
    }
}

impl Packed {
    /// Whether all elements of the first `n` rows are finite.
    #[inline(always)]
    unsafe fn is_finite(self, n: usize) -> bool {
        let mut largest = 0;
        for r in 0..n {
            // SAFETY: the rows exist.
            let elements = unsafe { std::slice::from_raw_parts(self.panel.at(r).ptr, self.c) };
            // Numbers have the order of their bits, and infinities and NaN follow.
            largest = elements
                .iter()
                .fold(largest, |largest, x| x.abs().to_bits().max(largest));
        }
        largest < f32::INFINITY.to_bits()
    }
}

impl Tile {
    /// Copies the rows of `x` at the tile's keys, unless they lie so already.
    ///
    /// # Safety
    /// `x` has rows of `c` elements, and the memory [`packed_scratch`] elements.
    #[inline(always)]
    pub(super) unsafe fn pack(&self, x: Rows<f32>, c: usize, to: *mut f32) -> Packed {
        let row = wide(c);
        if x.row == row
            && let Some(packed) = self.in_place(x, c)
        {
            return packed;
        }
        let panel = Panel { ptr: to, row };
        for r in 0..self.n {
            // SAFETY: passed on.
            unsafe { copy_row(c, 1.0, x.from(self.key(r)), panel.at(r)) };
        }
        Packed { panel, c }
    }

    /// The rows of `x` at the tile's keys where they lie, if these are as wide as a product needs and evenly apart.
    #[inline(always)]
    pub(super) fn in_place(&self, x: Rows<f32>, c: usize) -> Option<Packed> {
        let panel = Panel {
            ptr: x.at(self.first()),
            row: x.row,
        };
        (self.last() - self.first() == self.n - 1 && x.col == 1 && c == wide(c)).then_some(Packed { panel, c })
    }

    /// The key of a row.
    #[inline(always)]
    pub(super) fn key(&self, row: usize) -> usize {
        self.keys[row] as usize
    }

    /// The first and the last key.
    pub(super) fn first(&self) -> usize {
        self.key(0)
    }
    pub(super) fn last(&self) -> usize {
        self.key(self.n - 1)
    }

    /// The runs of keys, in order.
    pub(super) fn runs(&self) -> impl Iterator<Item = KeyRun> + '_ {
        let mut row = 0;
        std::iter::from_fn(move || {
            if row == self.n {
                return None;
            }
            let (first, key) = (row, self.key(row));
            let breaks = |r: &usize| self.key(*r) != key + (*r - first);
            row = if self.last() - key == self.n - 1 - first {
                self.n
            } else {
                (first..self.n).find(breaks).unwrap_or(self.n)
            };
            let n = row - first;
            Some(KeyRun { row: first, key, n })
        })
    }

    /// `to[r][i] = sum_c x[r][c] y[c][i]`: scores, with `x` the keys and `y` the queries in lanes.
    ///
    /// # Safety
    /// `x` is one of the tile's, `y` has a row for each of its columns and `to` for each of its rows, of `W` lanes.
    #[inline(always)]
    pub(super) unsafe fn times_lanes<const W: usize>(&self, queries: usize, x: Packed, y: *mut f32, to: *mut f32) {
        let rows = Left::Rows {
            ptr: x.panel.ptr,
            row: x.panel.row,
        };
        // SAFETY: passed on.
        unsafe {
            product(
                self.n,
                x.c,
                queries.next_multiple_of(LEAST),
                rows,
                Panel { ptr: y, row: W },
                Panel { ptr: to, row: W },
                false,
            );
        }
    }

    /// Adds `sum_r w[r][i] x[r]` to the row of each query of the block: values with the weights `w`. Values
    /// that a query does not see have no influence on it, even NaN.
    ///
    /// # Safety
    /// `x` is one of the tile's, `w` has a row for each of its rows, of `W` lanes, and `to` a wide row for each lane.
    #[inline(always)]
    pub(super) unsafe fn add_weighted<const W: usize>(
        &self,
        head: &Head,
        block: QueryBlock,
        x: Packed,
        w: *mut f32,
        to: Panel,
    ) {
        // SAFETY: passed on.
        unsafe {
            if head.lanes_that_see(block, self.last()).0 > 0 && !x.is_finite(self.n) {
                return self.add_visible::<W>(head, block, x, w, to);
            }
            let lanes = Left::Columns { ptr: w, column: W };
            product(block.n, self.n, wide(x.c), lanes, x.panel, to, true);
        }
    }

    /// [`Tile::add_weighted`] without the terms of queries that do not see a key.
    unsafe fn add_visible<const W: usize>(&self, head: &Head, block: QueryBlock, x: Packed, w: *const f32, to: Panel) {
        for r in 0..self.n {
            let (from, end) = head.lanes_that_see(block, self.key(r));
            for i in from..end {
                for j in 0..x.c {
                    // SAFETY: the elements exist.
                    unsafe { *to.at(i).ptr.add(j) += *w.add(r * W + i) * *x.panel.at(r).ptr.add(j) };
                }
            }
        }
    }
}
