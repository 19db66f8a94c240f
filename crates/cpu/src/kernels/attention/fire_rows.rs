//! Biases of FIRE for a tile of keys and a block of queries, and the sums that its derivative is made of.

use super::fire::{FireHead, Pieces};
use super::head::Head;
use super::lanes::{load, store};
use super::query_block::{BLOCK, QueryBlock, TILE};
use super::tile::Tile;
use crate::simd::{Level, fma, larger};

/// FIRE for a block of queries.
#[derive(Clone, Copy)]
pub(super) struct FireBlock<const W: usize> {
    /// The position of the first query, and the number of queries.
    position: i64,
    n: usize,
    /// Whether biases depend on offsets alone.
    uniform: bool,
    /// One divided by each query's denominator, unless all are the same.
    inverse: [f32; W],
    /// The pieces whose sums are not all zeros.
    touched: (usize, usize),
    /// Where the search for a piece begins.
    last_piece: usize,
}

impl<const W: usize> FireBlock<W> {
    pub(super) fn new(head: &Head, fire: &FireHead, block: QueryBlock) -> FireBlock<W> {
        let position = head.first + block.first as i64;
        let offsets = position + 1 - head.visible_to(block) as i64..position + W as i64;
        let uniform = fire.is_uniform(position + block.n as i64 - 1, offsets);
        let mut inverse = [0.0; W];
        if !uniform {
            for i in 0..block.n {
                inverse[i] = fire.parameters.inverse((position + i as i64) as f64) as f32;
            }
        }
        FireBlock {
            position,
            n: block.n,
            uniform,
            inverse,
            touched: (usize::MAX, 0),
            last_piece: 0,
        }
    }

    /// Whether biases depend on offsets alone.
    pub(super) fn uniform(&self) -> bool {
        self.uniform
    }

    /// The least and the largest of the inverse denominators: they fall with the position.
    pub(super) fn inverse_range(&self) -> (f32, f32) {
        (self.inverse[self.n - 1], self.inverse[0])
    }

    fn offset(&self, tile: &Tile, row: usize) -> i64 {
        self.position - tile.key(row) as i64
    }

    /// Adds the biases to scores.
    ///
    /// # Safety
    /// There are as many rows of `W` lanes as the tile has.
    #[inline(always)]
    pub(super) unsafe fn add<L: Level>(
        &self,
        head: &Head,
        fire: &FireHead,
        block: QueryBlock,
        tile: &Tile,
        rows: *mut f32,
    ) {
        if self.uniform {
            for r in 0..tile.n {
                // SAFETY: the row exists, and the table has the offsets of a uniform block.
                unsafe {
                    let (mut s, biases) = (load::<W>(rows.add(r * W)), fire.biases::<W>(self.offset(tile, r)));
                    for i in 0..W {
                        s[i] += biases[i];
                    }
                    store(rows.add(r * W), s);
                }
            }
            return;
        }
        let pieces = self.row_pieces(head, fire, block, tile);
        for r in 0..tile.n {
            let u = self.arguments(fire, self.offset(tile, r));
            // SAFETY: the row exists.
            unsafe {
                let s = load::<W>(rows.add(r * W));
                store(rows.add(r * W), add_pieces::<L, W>(&fire.pieces, pieces[r], &u, s));
            }
        }
    }

    /// For each row of a tile the pieces that the arguments of its lanes are in: the first and the last.
    #[inline(always)]
    fn row_pieces(&self, head: &Head, fire: &FireHead, block: QueryBlock, tile: &Tile) -> [(u32, u32); TILE] {
        let mut pieces = [(0, 0); TILE];
        let (mut first, mut last) = (0, 0);
        for r in 0..tile.n {
            let seen = head.lanes_that_see(block, tile.key(r));
            let (least, largest) = self.ends(fire, self.offset(tile, r), seen);
            first = fire.pieces.find(least, first);
            last = fire.pieces.find(largest, last);
            pieces[r] = (first as u32, last as u32);
        }
        pieces
    }

    /// The least and the largest argument in a row, of the lanes that see its key: arguments rise or fall with the
    /// position on each side of the key.
    #[inline(always)]
    fn ends(&self, fire: &FireHead, offset: i64, (from, end): (usize, usize)) -> (f32, f32) {
        if from >= end {
            return (0.0, 0.0);
        }
        let at = |lane: usize| fire.psi::<1>(offset + lane as i64)[0] * self.inverse[lane];
        let (a, b) = (at(from), at(end - 1));
        let crosses = offset + (from as i64) < 0 && offset + end as i64 - 1 > 0;
        let least = if b < a { b } else { a };
        (if crosses { 0.0 } else { least }, larger(a, b))
    }

    #[inline(always)]
    fn arguments(&self, fire: &FireHead, offset: i64) -> [f32; W] {
        let mut u = fire.psi::<W>(offset);
        for i in 0..W {
            u[i] *= self.inverse[i];
        }
        u
    }
}

/// Adds a piecewise linear function of arguments that are in these pieces.
#[inline(always)]
fn add_pieces<L: Level, const W: usize>(
    pieces: &Pieces,
    (first, last): (u32, u32),
    u: &[f32; W],
    mut s: [f32; W],
) -> [f32; W] {
    let (slope, (at, value)) = (pieces.slope(first as usize), pieces.left(first as usize));
    for i in 0..W {
        s[i] += fma::<L>(slope, u[i] - at, value);
    }
    for k in first..last {
        let (kink, change) = (pieces.kink(k as usize), pieces.change(k as usize));
        for i in 0..W {
            s[i] = fma::<L>(change, larger(u[i] - kink, 0.0), s[i]);
        }
    }
    s
}

/// Sums for the derivatives of FIRE's parameters, of one task and one head.
#[derive(Clone, Copy)]
pub(super) struct FireSums {
    /// For each offset, the sum of the derivatives of biases in rows before `L`; from the element of offset 0 on.
    pub(super) by_offset: *mut f32,
    /// For the other rows: for each piece the sums of `d` and `d u`, then the derivatives of `c` and `l`.
    pub(super) totals: *mut f64,
    /// For each piece and query of a block, the sums of `d`, `d u` and `d dpsi/dc`.
    pub(super) lanes: *mut f32,
    /// Hidden units.
    pub(super) width: usize,
}

impl FireSums {
    /// The same with the lanes of one of several blocks.
    pub(super) fn of_block(&self, block: usize) -> FireSums {
        FireSums {
            lanes: self.lanes.wrapping_add(block * fire_lanes_scratch(self.width)),
            ..*self
        }
    }
}

/// Number of `f32` of the lanes of one block in [`FireSums`].
pub(super) fn fire_lanes_scratch(width: usize) -> usize {
    3 * (width + 1) * BLOCK
}

impl<const W: usize> FireBlock<W> {
    /// Forgets the sums of the block before.
    ///
    /// # Safety
    /// The memory of the sums exists.
    #[inline(always)]
    pub(super) unsafe fn begin(&self, fire: &FireHead, sums: &FireSums) {
        if !self.uniform {
            // SAFETY: passed on.
            unsafe { sums.lanes.write_bytes(0, 3 * (fire.pieces.kinks + 1) * W) };
        }
    }

    /// Adds the derivatives of a tile's scores; the derivatives are zeros in lanes that do not see a key.
    ///
    /// # Safety
    /// There are as many rows of `W` lanes as the tile has; the memory of the sums exists.
    #[inline(always)]
    pub(super) unsafe fn collect<L: Level>(
        &mut self,
        head: &Head,
        fire: &FireHead,
        block: QueryBlock,
        tile: &Tile,
        rows: *const f32,
        sums: &FireSums,
    ) {
        if self.uniform {
            for r in 0..tile.n {
                // SAFETY: the row exists, and so do the offsets of a uniform block.
                unsafe {
                    let d = load::<W>(rows.add(r * W));
                    let to = sums.by_offset.offset(self.offset(tile, r) as isize);
                    let mut all = load::<W>(to);
                    for i in 0..W {
                        all[i] += d[i];
                    }
                    store(to, all);
                }
            }
            return;
        }
        let pieces = self.row_pieces(head, fire, block, tile);
        for r in 0..tile.n {
            let offset = self.offset(tile, r);
            // SAFETY: the row exists.
            let d = unsafe { load::<W>(rows.add(r * W)) };
            let (u, by_c) = (self.arguments(fire, offset), fire.psi_by_c::<W>(offset));
            let (first, last) = (pieces[r].0 as usize, pieces[r].1 as usize);
            self.touched = (self.touched.0.min(first), self.touched.1.max(last));
            for k in first..=last {
                let left = if k == first {
                    f32::NEG_INFINITY
                } else {
                    fire.pieces.kink(k - 1)
                };
                let right = if k == last { f32::INFINITY } else { fire.pieces.kink(k) };
                // SAFETY: the sums of each piece exist.
                unsafe { collect_piece::<L, W>(&d, &u, &by_c, (left, right), sums.lanes.add(3 * k * W)) };
            }
        }
    }

    /// [`FireBlock::collect`] for one lane of one row.
    ///
    /// # Safety
    /// The memory of the sums exists.
    #[inline(always)]
    pub(super) unsafe fn collect_one(
        &mut self,
        fire: &FireHead,
        tile: &Tile,
        (row, lane): (usize, usize),
        d: f32,
        sums: &FireSums,
    ) {
        let offset = self.offset(tile, row) + lane as i64;
        // SAFETY: the offsets of a uniform block exist, and the sums of each piece.
        unsafe {
            if self.uniform {
                *sums.by_offset.offset(offset as isize) += d;
                return;
            }
            let u = fire.psi::<1>(offset)[0] * self.inverse[lane];
            let piece = fire.pieces.find(u, self.last_piece);
            self.last_piece = piece;
            self.touched = (self.touched.0.min(piece), self.touched.1.max(piece));
            let to = sums.lanes.add(3 * piece * W + lane);
            *to += d;
            *to.add(W) += d * u;
            *to.add(2 * W) += d * fire.psi_by_c::<1>(offset)[0];
        }
    }

    /// Adds the sums of a block to the totals.
    ///
    /// # Safety
    /// The memory of the sums exists.
    pub(super) unsafe fn finish(&self, fire: &FireHead, block: QueryBlock, sums: &FireSums) {
        if self.uniform || self.touched.0 == usize::MAX {
            return;
        }
        let (pieces, p) = (&fire.pieces, &fire.parameters);
        let (length, end) = (p.length(), 2 * (pieces.kinks + 1));
        for i in 0..block.n {
            let position = (self.position + i as i64) as f64;
            let reach = position.max(length);
            let (inverse, by_c, by_x) = (f64::from(self.inverse[i]), p.psi_by_c(reach), p.psi_by_x(reach));
            // At `p = L`, half of the derivative reaches `l`.
            let share = match position.total_cmp(&length) {
                std::cmp::Ordering::Less => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Greater => 0.0,
            };
            for k in self.touched.0..=self.touched.1 {
                let slope = f64::from(pieces.slope(k));
                // SAFETY: the sums and totals of each piece exist.
                unsafe {
                    let [d, du, dc] = [0, 1, 2].map(|which| f64::from(*sums.lanes.add((3 * k + which) * W + i)));
                    *sums.totals.add(2 * k) += d;
                    *sums.totals.add(2 * k + 1) += du;
                    *sums.totals.add(end) += slope * inverse * (dc - by_c * du);
                    *sums.totals.add(end + 1) -= slope * inverse * du * by_x * share * p.length_by_l();
                }
            }
        }
    }
}

/// Adds the terms between the kinks of a piece to its sums.
#[inline(always)]
unsafe fn collect_piece<L: Level, const W: usize>(
    d: &[f32; W],
    u: &[f32; W],
    by_c: &[f32; W],
    (left, right): (f32, f32),
    to: *mut f32,
) {
    // SAFETY: the sums of the piece exist.
    unsafe {
        let [mut all, mut with_u, mut with_c] = [0, 1, 2].map(|which| load::<W>(to.add(which * W)));
        for i in 0..W {
            let inside = (u[i] > left) & (u[i] <= right);
            let d = if inside { d[i] } else { 0.0 };
            all[i] += d;
            with_u[i] = fma::<L>(d, u[i], with_u[i]);
            with_c[i] = fma::<L>(d, by_c[i], with_c[i]);
        }
        store(to, all);
        store(to.add(W), with_u);
        store(to.add(2 * W), with_c);
    }
}
