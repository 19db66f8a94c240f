//! Products of codes by tiles of AMX, on the panels of the products by AVX-512 VNNI and with the same sums.
//!
//! A row of a panel is a row of a tile of the right factor: 16 columns of words. 16 words of 16 rows are a tile of the
//! left factor. It is read in place where its rows lie in even strides, and gathered elsewhere. 32 rows and 32 columns
//! of the product are four tiles of sums.

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::tiles::Tiles;
use crate::kernels::x86::words::terms::{Begins, Place, Runs};
use crate::kernels::x86::words::{VECTOR, WORD};

/// Rows of a tile, and the most words of a row.
const ROWS: usize = 16;
const WORDS: usize = 16;

/// Bytes of a row of a tile, and of a tile.
const ROW_BYTES: usize = WORDS * WORD;
const TILE_BYTES: usize = ROWS * ROW_BYTES;

/// The fewest rows and words of a run that are faster by tiles than by AVX-512 VNNI.
const LEAST: (usize, usize) = (8, 4);

/// The most steps along the words between which sums stay in tiles.
const STEPS: usize = 16;

/// Tile registers for products of codes, where these are faster by tiles.
pub(crate) struct Held {
    tiles: Tiles,
    /// Words of a step.
    depth: usize,
}

impl Held {
    /// For products of rows whose runs have `words` words; none where vectors are faster.
    ///
    /// # Safety
    /// Kernels use [`Amx`](crate::simd::Feature::Amx).
    pub(crate) unsafe fn new(rows: usize, words: usize) -> Option<Held> {
        if rows < LEAST.0 || words < LEAST.1 {
            return None;
        }
        let depth = words.min(WORDS);
        let (left, right) = ((ROWS as u8, (depth * WORD) as u16), (depth as u8, ROW_BYTES as u16));
        let sums = (ROWS as u8, ROW_BYTES as u16);
        // SAFETY: passed on.
        let tiles = unsafe { Tiles::of([sums, sums, sums, sums, left, left, right, right]) };
        Some(Held { tiles, depth })
    }

    /// Whether these tiles are for products of such rows.
    pub(crate) fn fits(&self, rows: usize, terms: &Runs) -> bool {
        rows >= LEAST.0 && terms.words.min(WORDS) == self.depth && terms.runs > 0
    }
}

/// The factors of a step: the tiles of one or two strips of rows, bytes between their rows, and a row of the panel.
#[repr(C)]
#[derive(Clone, Copy)]
struct Step {
    left: [*const u8; 2],
    apart: [usize; 2],
    right: *const u8,
}

/// Gathered tiles of the left factor.
#[repr(C, align(64))]
struct Room([[MaybeUninit<[u8; TILE_BYTES]>; 2]; STEPS]);

/// The product of `rows` rows and `width` columns, as by AVX-512 VNNI.
///
/// # Safety
/// Kernels use [`Amx`](crate::simd::Feature::Amx), [`Held::fits`], the words are readable, and nobody else accesses
/// the elements of the product.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(crate) unsafe fn rows_of_codes(held: &Held, rows: usize, width: usize, terms: Runs, to: Place, accumulate: bool) {
    let mut room = MaybeUninit::<Room>::uninit();
    let room = room.as_mut_ptr().cast::<u8>();
    let nothing = Step {
        left: [room; 2],
        apart: [ROW_BYTES; 2],
        right: std::ptr::null(),
    };
    let mut steps = [nothing; STEPS];
    for row in (0..rows).step_by(2 * ROWS) {
        let block = Block {
            rows: (rows - row).min(2 * ROWS),
            width,
            terms: terms.from(row),
            to: to.from(row),
        };
        let (mut count, mut is_first) = (0, true);
        for run in 0..terms.runs {
            // SAFETY: passed on; the room has two tiles for each step.
            unsafe {
                let apart = block.apart_of_strips(run);
                for word in (0..terms.words).step_by(WORDS) {
                    block.set(&mut steps[count], (run, word), apart, room.add(2 * count * TILE_BYTES));
                    count += 1;
                    if count == STEPS {
                        block.add_all(held, &steps, accumulate || !is_first);
                        (count, is_first) = (0, false);
                    }
                }
            }
        }
        if count > 0 {
            // SAFETY: passed on.
            unsafe { block.add_all(held, &steps[..count], accumulate || !is_first) };
        }
    }
}

/// Bytes from each of several pointers to the next, where these are the same.
#[inline(always)]
fn apart(pointers: &[*const u8]) -> Option<usize> {
    let [first, second, ..] = *pointers else {
        return None;
    };
    let apart = second.addr().wrapping_sub(first.addr());
    let mut expected = first.addr();
    for pointer in pointers {
        if pointer.addr() != expected {
            return None;
        }
        expected = expected.wrapping_add(apart);
    }
    Some(apart)
}

/// Up to 32 rows of a product.
struct Block {
    rows: usize,
    width: usize,
    terms: Runs,
    to: Place,
}

impl Block {
    /// Bytes from row to row of the words of each strip in a run; none where a strip is not whole or its rows lie in
    /// uneven strides.
    ///
    /// # Safety
    /// There is the run.
    unsafe fn apart_of_strips(&self, run: usize) -> [Option<usize>; 2] {
        let pointers = self.terms.pointers.wrapping_add(run * self.terms.apart);
        // SAFETY: passed on.
        let pointers = unsafe { std::slice::from_raw_parts(pointers, self.rows) };
        let mut strips = pointers.chunks_exact(ROWS);
        [strips.next().and_then(apart), strips.next().and_then(apart)]
    }

    /// Sets the factors of the step of a run that begins at a word.
    ///
    /// # Safety
    /// The words are readable, the strips' rows lie `apart` bytes apart, and `room` has two tiles.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn set(&self, step: &mut Step, (run, word): (usize, usize), apart: [Option<usize>; 2], room: *mut u8) {
        let terms = &self.terms;
        // The last step of a run begins earlier where words are missing, and words that were counted are zeros.
        let begin = word.min(terms.words - terms.words.min(WORDS));
        let depth = (terms.words - begin).min(WORDS);
        let there = (((1u32 << depth) - 1) >> (word - begin) << (word - begin)) as __mmask16;
        let pointers = terms.pointers.wrapping_add(run * terms.apart);
        let offset = terms.offset + begin * WORD;
        let panel = run * terms.panel_apart + begin * terms.panel_row;
        step.right = terms.panel.wrapping_add(panel);
        for strip in 0..self.rows.div_ceil(ROWS) {
            let rows = (self.rows - strip * ROWS).min(ROWS);
            let pointers = pointers.wrapping_add(strip * ROWS);
            // SAFETY: passed on; the strip has these rows.
            unsafe {
                if let Some(apart) = apart[strip].filter(|_| word == begin) {
                    step.left[strip] = (*pointers).wrapping_add(offset);
                    step.apart[strip] = apart;
                    continue;
                }
                let tile = room.add(strip * TILE_BYTES);
                step.left[strip] = tile;
                step.apart[strip] = ROW_BYTES;
                for i in 0..rows {
                    let words = _mm512_maskz_loadu_epi32(there, (*pointers.add(i)).add(offset).cast());
                    _mm512_store_si512(tile.add(i * ROW_BYTES).cast(), words);
                }
            }
        }
    }

    /// Adds up the products of some steps.
    ///
    /// # Safety
    /// As for [`rows_of_codes`]; the steps' factors are readable.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn add_all(&self, held: &Held, steps: &[Step], accumulate: bool) {
        for column in (0..self.width).step_by(2 * VECTOR) {
            // SAFETY: passed on.
            unsafe { self.add(&held.tiles, steps, column, accumulate) };
        }
    }

    /// Adds up the products of some steps for up to 32 columns from this one on.
    ///
    /// # Safety
    /// The tiles are configured, the steps' factors are readable, and nobody else accesses the elements of the product.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn add(&self, tiles: &Tiles, steps: &[Step], column: usize, accumulate: bool) {
        let vectors = (self.width - column).div_ceil(VECTOR).min(2);
        let to = self.to.vector(column + (vectors - 1) * VECTOR, self.width);
        let (first, last) = (to.column - (vectors - 1) * VECTOR, to.last);
        let bias = self.to.bias;
        // SAFETY: passed on.
        unsafe {
            let begin = self.to.row(0).wrapping_add(column);
            if let Some(apart) = self.apart().filter(|_| last == !0 && (accumulate || bias.is_null())) {
                return self.multiply(tiles, steps, column, vectors, (begin, apart), accumulate);
            }
            // A part of a block, or one whose rows lie in uneven strides, goes through a block of its own.
            let mut sums = MaybeUninit::<[f32; 2 * ROWS * 2 * VECTOR]>::uninit();
            let sums = sums.as_mut_ptr().cast::<f32>();
            let kept = if vectors == 2 { [!0, last] } else { [last, 0] };
            let adds = accumulate || !bias.is_null();
            for row in (0..self.rows).filter(|_| adds) {
                let from = if accumulate {
                    self.to.row(row).wrapping_add(column).cast_const()
                } else {
                    bias.wrapping_add(first)
                };
                for v in 0..vectors {
                    let at = sums.wrapping_add((2 * row + v) * VECTOR);
                    _mm512_storeu_ps(at, _mm512_maskz_loadu_ps(kept[v], from.wrapping_add(v * VECTOR)));
                }
            }
            self.multiply(tiles, steps, column, vectors, (sums, 2 * VECTOR * WORD), adds);
            for row in 0..self.rows {
                let begin = self.to.row(row).wrapping_add(column);
                for v in 0..vectors {
                    let at = sums.wrapping_add((2 * row + v) * VECTOR);
                    _mm512_mask_storeu_ps(begin.wrapping_add(v * VECTOR), kept[v], _mm512_loadu_ps(at));
                }
            }
        }
    }

    /// Elements from row to row of the product, where its strips are whole and its rows lie in even strides.
    ///
    /// # Safety
    /// There are the rows.
    unsafe fn apart(&self) -> Option<usize> {
        if !self.rows.is_multiple_of(ROWS) {
            return None;
        }
        match self.to.begins {
            Begins::Apart(_, apart) => Some(apart * WORD),
            // SAFETY: passed on.
            Begins::Listed(rows) => unsafe { apart(std::slice::from_raw_parts(rows.cast(), self.rows)) },
        }
    }

    /// Adds up the products of steps of one or two strips and one or two vectors of columns, whose sums lie at `c` in
    /// rows that begin `apart` bytes apart.
    ///
    /// # Safety
    /// As for [`Block::add`].
    #[inline]
    unsafe fn multiply(
        &self,
        tiles: &Tiles,
        steps: &[Step],
        column: usize,
        vectors: usize,
        (c, apart): (*mut f32, usize),
        accumulate: bool,
    ) {
        let terms = (steps, column * WORD, self.terms.panel_row);
        let to = (c, apart);
        // SAFETY: passed on.
        unsafe {
            match (self.rows > ROWS, vectors) {
                (true, 2) => two_by_two(tiles, terms, to, accumulate),
                (true, _) => two_by_one(tiles, terms, to, accumulate),
                (false, 2) => one_by_two(tiles, terms, to, accumulate),
                (false, _) => one_by_one(tiles, terms, to, accumulate),
            }
        }
    }
}

/// Defines the sum of the products of steps: which instructions read the sums, make a step and write the sums. Tiles 0
/// and 1 are the sums of the first strip, 2 and 3 those of the second one, 4 and 5 strips, 6 and 7 columns.
macro_rules! tile_product {
    ($name:ident, [$($load:literal),+], [$($step:literal),+], [$($store:literal),+]) => {
        /// Adds up the products of steps: `right` is the bytes from the panel's row to its first column, and
        /// `panel_row` from row to row. The sums' rows lie `apart` bytes apart.
        ///
        /// # Safety
        /// As for [`Block::add`]; there are steps.
        unsafe fn $name(
            _: &Tiles,
            (steps, right, panel_row): (&[Step], usize, usize),
            (c, apart): (*mut f32, usize),
            accumulate: bool,
        ) {
            // SAFETY: the loads and stores lie within what the caller promises, the registers are configured, and no
            // other code uses them.
            unsafe {
                asm!(
                    "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                    "test {accumulate:e}, {accumulate:e}",
                    "jz 2f",
                    $($load,)+
                    "2:",
                    "mov {b}, [{steps} + 32]",
                    "add {b}, {right}",
                    $($step,)+
                    "add {steps}, 40",
                    "dec {count}",
                    "jnz 2b",
                    $($store,)+
                    accumulate = in(reg) u32::from(accumulate),
                    c = in(reg) c,
                    apart = in(reg) apart,
                    steps = inout(reg) steps.as_ptr() => _,
                    count = inout(reg) steps.len() => _,
                    right = in(reg) right, panel_row = in(reg) panel_row,
                    a = out(reg) _, row = out(reg) _, b = out(reg) _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

const _: () = assert!(size_of::<Step>() == 40 && std::mem::offset_of!(Step, right) == 32);

tile_product!(
    two_by_two,
    [
        "tileloadd tmm0, [{c} + {apart}]",
        "tileloadd tmm1, [{c} + {apart} + 64]",
        "mov {a}, {apart}",
        "shl {a}, 4",
        "add {a}, {c}",
        "tileloadd tmm2, [{a} + {apart}]",
        "tileloadd tmm3, [{a} + {apart} + 64]"
    ],
    [
        "mov {a}, [{steps}]",
        "mov {row}, [{steps} + 16]",
        "tileloadd tmm4, [{a} + {row}]",
        "tileloadd tmm6, [{b} + {panel_row}]",
        "mov {a}, [{steps} + 8]",
        "mov {row}, [{steps} + 24]",
        "tileloadd tmm5, [{a} + {row}]",
        "tileloadd tmm7, [{b} + {panel_row} + 64]",
        "tdpbusd tmm0, tmm4, tmm6",
        "tdpbusd tmm2, tmm5, tmm6",
        "tdpbusd tmm1, tmm4, tmm7",
        "tdpbusd tmm3, tmm5, tmm7"
    ],
    [
        "tilestored [{c} + {apart}], tmm0",
        "tilestored [{c} + {apart} + 64], tmm1",
        "mov {a}, {apart}",
        "shl {a}, 4",
        "add {a}, {c}",
        "tilestored [{a} + {apart}], tmm2",
        "tilestored [{a} + {apart} + 64], tmm3"
    ]
);

tile_product!(
    two_by_one,
    [
        "tileloadd tmm0, [{c} + {apart}]",
        "mov {a}, {apart}",
        "shl {a}, 4",
        "add {a}, {c}",
        "tileloadd tmm2, [{a} + {apart}]"
    ],
    [
        "mov {a}, [{steps}]",
        "mov {row}, [{steps} + 16]",
        "tileloadd tmm4, [{a} + {row}]",
        "tileloadd tmm6, [{b} + {panel_row}]",
        "mov {a}, [{steps} + 8]",
        "mov {row}, [{steps} + 24]",
        "tileloadd tmm5, [{a} + {row}]",
        "tdpbusd tmm0, tmm4, tmm6",
        "tdpbusd tmm2, tmm5, tmm6"
    ],
    [
        "tilestored [{c} + {apart}], tmm0",
        "mov {a}, {apart}",
        "shl {a}, 4",
        "add {a}, {c}",
        "tilestored [{a} + {apart}], tmm2"
    ]
);

tile_product!(
    one_by_two,
    [
        "tileloadd tmm0, [{c} + {apart}]",
        "tileloadd tmm1, [{c} + {apart} + 64]"
    ],
    [
        "mov {a}, [{steps}]",
        "mov {row}, [{steps} + 16]",
        "tileloadd tmm4, [{a} + {row}]",
        "tileloadd tmm6, [{b} + {panel_row}]",
        "tileloadd tmm7, [{b} + {panel_row} + 64]",
        "tdpbusd tmm0, tmm4, tmm6",
        "tdpbusd tmm1, tmm4, tmm7"
    ],
    [
        "tilestored [{c} + {apart}], tmm0",
        "tilestored [{c} + {apart} + 64], tmm1"
    ]
);

tile_product!(
    one_by_one,
    ["tileloadd tmm0, [{c} + {apart}]"],
    [
        "mov {a}, [{steps}]",
        "mov {row}, [{steps} + 16]",
        "tileloadd tmm4, [{a} + {row}]",
        "tileloadd tmm6, [{b} + {panel_row}]",
        "tdpbusd tmm0, tmm4, tmm6"
    ],
    ["tilestored [{c} + {apart}], tmm0"]
);
