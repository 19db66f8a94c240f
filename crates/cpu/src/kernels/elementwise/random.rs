//! Counter-based random bits and dropout: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random
//! numbers: as easy as 1, 2, 3" (2011). Bits depend on the key, the stream and the position alone.

use lessen_graph::ops;
use lessen_graph::philox::dropout_threshold;

use crate::kernels::kernel::{Kernel, RowKernel, Types, WholeKernel};
use crate::kernels::rows::{Rows, flatten};
use crate::simd::{LANES, Level, dispatch, load, store};

/// Philox blocks computed at once; each is 4 words.
const BLOCKS: usize = 16;
/// Words and half-words computed at once.
const WORDS: usize = 4 * BLOCKS;
const HALVES: usize = 8 * BLOCKS;

/// Elements of random bits that one task makes.
const CHUNK: usize = 1 << 14;

const _: () = assert!(
    cfg!(target_endian = "little"),
    "parts of a number are read in memory order"
);

dispatch! {
    /// `out[i]` is element `first + i` of a stream: element `e` is word `e % 4` of block `e / 4`, and block
    /// `b` is Philox of the counter `[b low, b high, stream, 0]`.
    ///
    /// # Safety
    /// `out` has `n` elements.
    pub unsafe fn random_bits(
        key: [u32; 2], stream: u32, first: u64, n: usize, out: *mut u32,
    ) = random_bits_body;

    /// Dropout of `n` rows of `c` elements. The first element has the index `first`, and the other elements follow in
    /// row-major order. Element `i` is kept if half-word `i % 8` (low halves first) of block `i / 8` is at least
    /// `threshold = round(65536 p)`, which must be below 65536. A kept element is multiplied by `65536 / (65536 -
    /// threshold)`, the others are 0.
    ///
    /// # Safety
    /// The operands cover `n` rows of `c` elements; `y` may lie exactly where `x` lies, or overlaps nothing.
    pub unsafe fn dropout(
        p: f64, stream: u32, key: [u32; 2], first: u64, n: usize, c: usize, x: Rows<f32>, y: Rows<f32>,
    ) = dropout_body;
}

/// The words of blocks `first..first + BLOCKS`, in order, two in each element, the first in its low half.
///
/// A word is kept in the low half of a 64-bit lane, where one multiplication gives both halves of a product. The high
/// half is ignored until the end.
#[inline(always)]
fn blocks(key: [u32; 2], stream: u32, first: u64) -> [u64; WORDS / 2] {
    const LOW: u64 = 0xffff_ffff;
    let (mut low, mut high) = ([0; BLOCKS], [0; BLOCKS]);
    for i in 0..BLOCKS {
        let block = first.wrapping_add(i as u64);
        let (mut c0, mut c1, mut c2, mut c3) = (block, block >> 32, u64::from(stream), 0);
        let (mut k0, mut k1) = (key[0], key[1]);
        for _ in 0..10 {
            let a = (c0 & LOW) * 0xd251_1f53;
            let b = (c2 & LOW) * 0xcd9e_8d57;
            (c0, c1, c2, c3) = ((b >> 32) ^ c1 ^ u64::from(k0), b, (a >> 32) ^ c3 ^ u64::from(k1), a);
            k0 = k0.wrapping_add(0x9e37_79b9);
            k1 = k1.wrapping_add(0xbb67_ae85);
        }
        low[i] = (c0 & LOW) | (c1 << 32);
        high[i] = (c2 & LOW) | (c3 << 32);
    }
    let mut words = [0; WORDS / 2];
    for i in 0..BLOCKS {
        words[2 * i] = low[i];
        words[2 * i + 1] = high[i];
    }
    words
}

#[inline(always)]
unsafe fn random_bits_body<L: Level>(key: [u32; 2], stream: u32, first: u64, n: usize, out: *mut u32) {
    let mut done = 0;
    while done < n {
        let element = first.wrapping_add(done as u64);
        let skip = (element % 4) as usize;
        let pairs = blocks(key, stream, element / 4);
        // SAFETY: plain numbers of the same total size. On a little-endian machine, words lie in order.
        let words = unsafe { std::mem::transmute::<[u64; WORDS / 2], [u32; WORDS]>(pairs) };
        let len = (WORDS - skip).min(n - done);
        // SAFETY: the words `skip..skip + len` exist, and so do the elements `done..done + len`.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().add(skip), out.add(done), len) };
        done += len;
    }
}

/// Computes the half-words `first..first + n` of a stream, which dropout compares with its threshold.
///
/// # Safety
/// `out` has `n` elements.
#[inline(always)]
pub(crate) unsafe fn random_halves(key: [u32; 2], stream: u32, first: u64, n: usize, out: *mut u16) {
    let mut done = 0;
    while done < n {
        let index = first.wrapping_add(done as u64);
        let skip = (index % 8) as usize;
        let halves = halves(blocks(key, stream, index / 8));
        let len = (HALVES - skip).min(n - done);
        // SAFETY: the half-words `skip..skip + len` exist, and so do the elements `done..done + len`.
        unsafe {
            std::ptr::copy_nonoverlapping(halves.as_ptr().add(skip), out.add(done), len);
        }
        done += len;
    }
}

/// The threshold of dropout with probability `p`, and the scale of kept elements.
pub(crate) fn threshold_and_scale(p: f64) -> (u16, f32) {
    let threshold = dropout_threshold(p).min(0xffff);
    (threshold as u16, (65536.0 / (65536.0 - f64::from(threshold))) as f32)
}

/// The constants of a dropout.
#[derive(Clone, Copy)]
struct Mask {
    key: [u32; 2],
    stream: u32,
    threshold: u16,
    scale: f32,
}

#[inline(always)]
unsafe fn dropout_body<L: Level>(
    p: f64,
    stream: u32,
    key: [u32; 2],
    first: u64,
    n: usize,
    c: usize,
    x: Rows<f32>,
    y: Rows<f32>,
) {
    let (threshold, scale) = threshold_and_scale(p);
    let mask = Mask {
        key,
        stream,
        threshold,
        scale,
    };
    flatten!(n, c, x, y);
    for r in 0..n {
        let index = first.wrapping_add((r * c) as u64);
        // SAFETY: row `r` lies within the operands.
        unsafe {
            if x.col == 1 && y.col == 1 {
                dropout_run(mask, index, c, (x.at(r), 1), (y.at(r), 1));
            } else {
                dropout_run(mask, index, c, (x.at(r), x.col), (y.at(r), y.col));
            }
        }
    }
}

#[inline(always)]
unsafe fn dropout_run(
    mask: Mask,
    first: u64,
    c: usize,
    (x, x_col): (*const f32, usize),
    (y, y_col): (*mut f32, usize),
) {
    let mut done = 0;
    while done < c {
        let index = first.wrapping_add(done as u64);
        let skip = (index % 8) as usize;
        let halves = halves(blocks(mask.key, mask.stream, index / 8));
        // SAFETY: the elements `done..done + len` lie within the run; a chunk is read before any of it is
        // written.
        unsafe {
            if skip == 0 && c - done >= HALVES {
                for part in 0..HALVES / LANES {
                    let at = done + part * LANES;
                    let xs = load(x.add(at * x_col), x_col, LANES, 0.0);
                    store(y.add(at * y_col), y_col, LANES, &keep(mask, &halves, part * LANES, &xs));
                }
                done += HALVES;
            } else {
                let len = (HALVES - skip).min(c - done);
                for part in 0..len.div_ceil(LANES) {
                    let (at, len) = (done + part * LANES, (len - part * LANES).min(LANES));
                    let xs = load(x.add(at * x_col), x_col, len, 0.0);
                    let ys = keep(mask, &halves, skip + part * LANES, &xs);
                    store(y.add(at * y_col), y_col, len, &ys);
                }
                done += len;
            }
        }
    }
}

/// The half-words of words, and zeros up to where a chunk that starts within the last block ends.
#[inline(always)]
fn halves(pairs: [u64; WORDS / 2]) -> [u16; HALVES + 8] {
    // SAFETY: plain numbers of the same total size. On a little-endian machine, half-words lie in order.
    let all = unsafe { std::mem::transmute::<[u64; WORDS / 2], [u16; HALVES]>(pairs) };
    let mut halves = [0; HALVES + 8];
    halves[..HALVES].copy_from_slice(&all);
    halves
}

#[inline(always)]
fn keep(mask: Mask, halves: &[u16; HALVES + 8], from: usize, xs: &[f32; LANES]) -> [f32; LANES] {
    // States the bound, so that the compiler drops the check in the loop.
    let from = from.min(HALVES + 8 - LANES);
    let halves = &halves[from..from + LANES];
    let mut ys = [0.0; LANES];
    for i in 0..LANES {
        ys[i] = if halves[i] >= mask.threshold {
            xs[i] * mask.scale
        } else {
            0.0
        };
    }
    ys
}

/// The kernel of [`ops::Dropout`].
pub(crate) fn dropout_kernel(op: &ops::Dropout, _: &Types<'_>) -> RowKernel {
    let ops::Dropout { p, stream, first } = *op;
    // SAFETY: see `Run`.
    RowKernel::rows(move |r| unsafe {
        dropout(
            p,
            stream,
            r.key(1),
            (first as u64).wrapping_add(r.first as u64),
            r.n,
            r.c(),
            r.x(0),
            r.y(0),
        );
    })
}

/// The kernel of [`ops::RandomBits`].
pub(crate) fn random_bits_kernel(op: &ops::RandomBits, types: &Types<'_>) -> Option<Kernel> {
    let (stream, n) = (op.stream, types.outputs[0].numel());
    WholeKernel::dense(n.div_ceil(CHUNK), move |w, task| {
        let first = task * CHUNK;
        // SAFETY: see `Work`; tasks write disjoint chunks.
        unsafe {
            let out = w.outputs[0].cast::<u32>().add(first);
            random_bits(w.key(0), stream, first as u64, CHUNK.min(n - first), out);
        }
    })
    .into()
}
