//! FIRE (Li et al. 2024) as tables. Its function of one argument `u`, with one hidden layer of ReLU, is piecewise
//! linear: the kinks of all heads are the kinks of the hidden units, and between two kinks a head has one slope. So an
//! interval search gives a bias, instead of a network. Rows at positions below `L` have one denominator, and their
//! biases depend on the distance alone.

use std::ops::Range;

use super::fire_parameters::Parameters;
use super::query_block::BLOCK;
use crate::simd::larger;

/// Elements of a table that one task makes.
pub(super) const CHUNK: usize = 1024;

/// The extents that decide the sizes of tables.
#[derive(Clone, Copy)]
pub(super) struct FireSizes {
    pub(super) heads: usize,
    /// Hidden units.
    pub(super) width: usize,
    /// Offsets `p - j` of a query's position and a key are from `-back` on,
    pub(super) back: usize,
    /// and this many.
    pub(super) span: usize,
}

impl FireSizes {
    /// For this many queries and keys.
    pub(super) fn new(
        heads: usize,
        width: usize,
        queries: usize,
        keys: usize,
        causal: bool,
        placed: bool,
    ) -> FireSizes {
        let back = if causal { BLOCK } else { queries.max(keys) };
        let ahead = if placed { queries + keys } else { queries.max(keys) };
        FireSizes {
            heads,
            width,
            back,
            span: back + ahead + BLOCK,
        }
    }

    /// Elements of the tables.
    pub(super) fn scratch(&self) -> usize {
        let by_offset = (2 + self.heads) * self.span + self.heads * self.maxima();
        1 + self.width + self.heads * (3 * self.width + 2) + by_offset
    }

    /// Number of maxima of a head.
    fn maxima(&self) -> usize {
        self.span.div_ceil(BLOCK)
    }
}

/// The tables in shared memory.
#[derive(Clone, Copy)]
pub(super) struct FireTables {
    sizes: FireSizes,
    ptr: *mut f32,
}

impl FireTables {
    pub(super) fn new(sizes: FireSizes, ptr: *mut f32) -> FireTables {
        FireTables { sizes, ptr }
    }

    /// The number of kinks; the kinks; and for each head slopes of pieces, values at their left ends, and changes of
    /// the slope at kinks.
    fn kink_count(&self) -> *mut u32 {
        self.ptr.cast()
    }
    fn kinks(&self) -> *mut f32 {
        self.ptr.wrapping_add(1)
    }
    fn head_pieces(&self, head: usize) -> [*mut f32; 3] {
        let width = self.sizes.width;
        let first = self.kinks().wrapping_add(width + head * (3 * width + 2));
        [first, first.wrapping_add(width + 1), first.wrapping_add(2 * width + 2)]
    }

    /// For each offset `psi`, its derivative with respect to `c`, and for each head the bias of rows before `L`.
    fn by_offset(&self, which: usize) -> *mut f32 {
        let FireSizes { heads, width, span, .. } = self.sizes;
        let pieces = 1 + width + heads * (3 * width + 2);
        self.ptr.wrapping_add(pieces + which * span)
    }

    /// The largest bias in rows before `L` of each run of [`BLOCK`] offsets.
    fn maxima(&self, head: usize) -> *mut f32 {
        let FireSizes { heads, .. } = self.sizes;
        self.by_offset(2 + heads).wrapping_add(head * self.sizes.maxima())
    }

    /// Makes the pieces of all heads.
    ///
    /// # Safety
    /// The memory has the elements of the tables, and nobody else uses that of the pieces.
    pub(super) unsafe fn make_pieces(&self, p: &Parameters) {
        let width = self.sizes.width;
        // SAFETY: the tables have room for as many kinks as there are units.
        unsafe {
            // Sorts in place, by insertion: there are few units.
            let mut n = 0;
            for kink in (0..width).filter_map(|k| p.kink(k)) {
                let kink = kink as f32;
                let mut at = n;
                while at > 0 && *self.kinks().add(at - 1) > kink {
                    *self.kinks().add(at) = *self.kinks().add(at - 1);
                    at -= 1;
                }
                *self.kinks().add(at) = kink;
                n += 1;
            }
            *self.kink_count() = n as u32;
            for head in 0..self.sizes.heads {
                self.make_head_pieces(p, head, n);
            }
        }
    }

    unsafe fn make_head_pieces(&self, p: &Parameters, head: usize, n: usize) {
        let [slopes, values, changes] = self.head_pieces(head);
        let (mut slope, mut value, mut left) = (0.0, p.shift(head), 0.0);
        for k in (0..self.sizes.width).filter(|&k| p.active_at_zero(k)) {
            let ((by_u, shift), weight) = (p.unit(k), p.weight(head, k));
            slope += weight * by_u;
            value += weight * shift;
        }
        for piece in 0..=n {
            // SAFETY: there is one piece more than kinks.
            unsafe {
                *slopes.add(piece) = slope as f32;
                *values.add(piece) = value as f32;
                if piece == n {
                    return;
                }
                let kink = *self.kinks().add(piece);
                value += slope * (f64::from(kink) - left);
                left = f64::from(kink);
                // Units whose kinks are equal make pieces of length 0 between them: all change at the first.
                let first = piece == 0 || *self.kinks().add(piece - 1) < kink;
                let here = (0..self.sizes.width).filter(|&k| first && p.kink(k).map(|u| u as f32) == Some(kink));
                let change: f64 = here.map(|k| p.weight(head, k) * p.unit(k).0.abs()).sum();
                *changes.add(piece) = change as f32;
                slope += change;
            }
        }
    }

    /// Makes `psi` and its derivative for some offsets.
    ///
    /// # Safety
    /// The memory has the elements of the tables, and nobody else uses these of them.
    pub(super) unsafe fn make_psi(&self, p: &Parameters, chunk: usize) {
        let FireSizes { back, span, .. } = self.sizes;
        for at in chunk * CHUNK..span.min((chunk + 1) * CHUNK) {
            let x = at as f64 - back as f64;
            // SAFETY: there is an element for each offset.
            unsafe {
                *self.by_offset(0).add(at) = p.psi(x) as f32;
                *self.by_offset(1).add(at) = p.psi_by_c(x) as f32;
            }
        }
    }

    /// Makes a head's biases of rows before `L` for some offsets.
    ///
    /// # Safety
    /// As [`FireTables::make_psi`], which has run, as has [`FireTables::make_pieces`].
    pub(super) unsafe fn make_biases(&self, p: &Parameters, head: usize, chunk: usize) {
        let pieces = self.pieces(head);
        let inverse = p.inverse(0.0) as f32;
        let mut piece = 0;
        for at in chunk * CHUNK..self.sizes.span.min((chunk + 1) * CHUNK) {
            // SAFETY: there is an element for each offset.
            unsafe {
                let u = *self.by_offset(0).add(at) * inverse;
                piece = pieces.find(u, piece);
                let value = pieces.value(u, piece);
                *self.by_offset(2 + head).add(at) = value;
                // A chunk has whole runs of offsets with one maximum.
                let maximum = self.maxima(head).add(at / BLOCK);
                *maximum = if at % BLOCK == 0 {
                    value
                } else {
                    larger(*maximum, value)
                };
            }
        }
    }

    /// The pieces of a head.
    pub(super) fn pieces(&self, head: usize) -> Pieces {
        let [slopes, values, changes] = self.head_pieces(head);
        Pieces {
            // SAFETY: the number has been written by the round before.
            kinks: unsafe { *self.kink_count() } as usize,
            kink: self.kinks(),
            slope: slopes,
            value: values,
            change: changes,
        }
    }

    /// The tables of one head.
    pub(super) fn head(&self, p: Parameters, head: usize) -> FireHead {
        let FireSizes { back, span, .. } = self.sizes;
        let centered = |which: usize| self.by_offset(which).wrapping_add(back).cast_const();
        FireHead {
            parameters: p,
            pieces: self.pieces(head),
            psi: centered(0),
            psi_by_c: centered(1),
            biases: centered(2 + head),
            maxima: self.maxima(head),
            offsets: (-(back as i64), span as i64 - back as i64),
        }
    }
}

/// A piecewise linear function.
#[derive(Clone, Copy)]
pub(super) struct Pieces {
    /// Number of kinks, one less than of pieces.
    pub(super) kinks: usize,
    kink: *const f32,
    slope: *const f32,
    /// At the left end of each piece.
    value: *const f32,
    /// Of the slope, at each kink.
    change: *const f32,
}

impl Pieces {
    /// A kink, and the change of the slope there.
    #[inline(always)]
    pub(super) fn kink(&self, k: usize) -> f32 {
        // SAFETY: there are as many elements as kinks.
        unsafe { *self.kink.add(k) }
    }
    #[inline(always)]
    pub(super) fn change(&self, k: usize) -> f32 {
        // SAFETY: as above.
        unsafe { *self.change.add(k) }
    }
    #[inline(always)]
    pub(super) fn slope(&self, piece: usize) -> f32 {
        // SAFETY: there is one piece more than kinks.
        unsafe { *self.slope.add(piece) }
    }

    /// Where a piece begins, and the value there.
    #[inline(always)]
    pub(super) fn left(&self, piece: usize) -> (f32, f32) {
        let at = if piece == 0 { 0.0 } else { self.kink(piece - 1) };
        // SAFETY: as above.
        (at, unsafe { *self.value.add(piece) })
    }

    /// The piece of an argument, from one nearby.
    #[inline(always)]
    pub(super) fn find(&self, u: f32, mut piece: usize) -> usize {
        while piece > 0 && u <= self.kink(piece - 1) {
            piece -= 1;
        }
        while piece < self.kinks && u > self.kink(piece) {
            piece += 1;
        }
        piece
    }

    /// The value at an argument in a piece.
    #[inline(always)]
    pub(super) fn value(&self, u: f32, piece: usize) -> f32 {
        let (at, value) = self.left(piece);
        self.slope(piece) * (u - at) + value
    }
}

/// FIRE of one head.
#[derive(Clone, Copy)]
pub(super) struct FireHead {
    pub(super) parameters: Parameters,
    pub(super) pieces: Pieces,
    /// From the element of offset 0 on, in both directions.
    psi: *const f32,
    psi_by_c: *const f32,
    biases: *const f32,
    /// The largest bias of each run of [`BLOCK`] offsets, from the first one on.
    maxima: *const f32,
    /// The offsets that the tables have.
    offsets: (i64, i64),
}

impl FireHead {
    /// Whether the table has the biases of these offsets for rows up to the position `last`: whether all these rows
    /// have one denominator.
    pub(super) fn is_uniform(&self, last: i64, offsets: Range<i64>) -> bool {
        let n = offsets.end - offsets.start;
        (last as f64) < self.parameters.length() && self.has(offsets.start, n.max(0) as usize)
    }

    fn has(&self, first: i64, n: usize) -> bool {
        first >= self.offsets.0 && first + n as i64 <= self.offsets.1
    }

    /// The biases at the offsets from `first` on, in rows before `L`.
    ///
    /// # Safety
    /// The tables have these offsets.
    #[inline(always)]
    pub(super) unsafe fn biases<const W: usize>(&self, first: i64) -> [f32; W] {
        // SAFETY: passed on.
        unsafe { self.biases.offset(first as isize).cast::<[f32; W]>().read_unaligned() }
    }

    /// A bound of the biases at the offsets from `from` to `to`, in rows before `L`. The tables have these offsets.
    pub(super) fn largest_bias(&self, from: i64, to: i64) -> f32 {
        let run = |offset: i64| ((offset.clamp(self.offsets.0, self.offsets.1 - 1) - self.offsets.0) as usize) / BLOCK;
        // SAFETY: each run has a maximum.
        let maxima = (run(from)..=run(to)).map(|run| unsafe { *self.maxima.add(run) });
        maxima.fold(f32::NEG_INFINITY, larger)
    }

    /// `psi` at the offsets from `first` on, and its derivative with respect to `c`.
    #[inline(always)]
    pub(super) fn psi<const W: usize>(&self, first: i64) -> [f32; W] {
        if !self.has(first, W) {
            return std::array::from_fn(|i| self.parameters.psi((first + i as i64) as f64) as f32);
        }
        // SAFETY: the table has these offsets.
        unsafe { self.psi.offset(first as isize).cast::<[f32; W]>().read_unaligned() }
    }
    #[inline(always)]
    pub(super) fn psi_by_c<const W: usize>(&self, first: i64) -> [f32; W] {
        if !self.has(first, W) {
            return std::array::from_fn(|i| self.parameters.psi_by_c((first + i as i64) as f64) as f32);
        }
        // SAFETY: as above.
        unsafe { self.psi_by_c.offset(first as isize).cast::<[f32; W]>().read_unaligned() }
    }
}
