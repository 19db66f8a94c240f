//! AdamW with moments of 8 bits, block by block.

use std::array::from_fn;
use std::sync::LazyLock;

use lessen_graph::ops;
use lessen_graph::ops::block_codes::{BLOCK, Codebook, blocks};

use super::adamw::{AdamWConstants, AdamWStep};
use crate::kernels::kernel::{Kernel, RowKernel, Types, WholeKernel};
use crate::simd::{LANES, Level, dispatch, fold, load, max, store};

/// The blocks of a task of a whole kernel.
const TASK: usize = 64;

/// Codes and scales of both moments.
#[derive(Clone, Copy)]
pub struct Moments {
    /// A code for each element.
    pub codes: [*const u8; 2],
    /// A scale for each block.
    pub scales: [*const f32; 2],
}

/// Memory of codes and scales of the new moments.
#[derive(Clone, Copy)]
pub struct NewMoments {
    /// A code for each element.
    pub codes: [*mut u8; 2],
    /// A scale for each block.
    pub scales: [*mut f32; 2],
}

/// A codebook in `f32`.
struct Book {
    values: [f32; 256],
    /// The least relative number of each code but the first; the last element stands for none.
    bounds: [f32; 256],
}

impl Book {
    fn of(book: Codebook) -> Book {
        let mut bounds = [f32::INFINITY; 256];
        for (to, bound) in bounds.iter_mut().zip(book.bounds()) {
            *to = bound as f32;
        }
        Book {
            values: book.values().map(|value| value as f32),
            bounds,
        }
    }

    /// The numbers that codes stand for.
    #[inline(always)]
    fn decode(&self, codes: &[u8; LANES], scale: f32) -> [f32; LANES] {
        let mut x = [0.0; LANES];
        for i in 0..LANES {
            x[i] = self.values[codes[i] as usize] * scale;
        }
        x
    }

    /// The codes of numbers, by halving the range of codes eight times.
    #[inline(always)]
    fn encode(&self, x: &[f32; LANES], divisor: f32) -> [u8; LANES] {
        let mut relative = [0.0; LANES];
        for i in 0..LANES {
            relative[i] = x[i] / divisor;
        }
        let mut code = [0u32; LANES];
        let mut half = 128;
        while half > 0 {
            for i in 0..LANES {
                let is_above = self.bounds[(code[i] + half - 1) as usize & 255] <= relative[i];
                code[i] += if is_above { half } else { 0 };
            }
            half /= 2;
        }
        code.map(|code| code as u8)
    }
}

static BOOKS: LazyLock<[Book; 2]> = LazyLock::new(|| [Codebook::Signed, Codebook::Unsigned].map(Book::of));

dispatch! {
    /// One step of [`ops::AdamW8bit`] of `n` parameters `p` with gradient `g`, learning rate `lr`, step number `t` from
    /// 1; `p2` and `new` become what they are after it.
    ///
    /// # Safety
    /// All arrays have an element for each parameter or block. `p2` may lie exactly where `p` or `g` lie, the new codes
    /// and scales where the old ones lie, and they overlap nothing otherwise.
    pub unsafe fn adamw_8bit(
        n: usize, p: *const f32, g: *const f32, old: Moments, p2: *mut f32, new: NewMoments, lr: f32, t: f32,
        constants: AdamWConstants,
    ) = adamw_8bit_body;
}

#[inline(always)]
unsafe fn adamw_8bit_body<L: Level>(
    n: usize,
    p: *const f32,
    g: *const f32,
    old: Moments,
    p2: *mut f32,
    new: NewMoments,
    lr: f32,
    t: f32,
    constants: AdamWConstants,
) {
    let (books, step) = (&*BOOKS, constants.at(lr, t));
    for block in 0..blocks(n) {
        let first = block * BLOCK;
        let len = BLOCK.min(n - first);
        // SAFETY: the block lies within all arrays; its codes and scales are read before they are written.
        unsafe {
            let mut moments = [[[0.0; LANES]; BLOCK / LANES]; 2];
            let [m_scale, v_scale] = old.scales.map(|scales| *scales.add(block));
            for (c, at) in (0..len).step_by(LANES).enumerate() {
                let (j, len) = (first + at, LANES.min(len - at));
                let m = books[0].decode(&load(old.codes[0].add(j), 1, len, 0), m_scale);
                let v = books[1].decode(&load(old.codes[1].add(j), 1, len, 0), v_scale);
                let gs = load(g.add(j), 1, len, 0.0);
                let mut ps = load(p.add(j), 1, len, 0.0);
                let (m, v) = step_of::<L>(step, &gs, &mut ps, m, v);
                store(p2.add(j), 1, len, &ps);
                // Elements after the last one count as zeros.
                for i in 0..len {
                    (moments[0][c][i], moments[1][c][i]) = (m[i], v[i]);
                }
            }
            for k in 0..2 {
                let scale = largest(&moments[k]);
                let divisor = if scale == 0.0 { 1.0 } else { scale };
                for (c, at) in (0..len).step_by(LANES).enumerate() {
                    let codes = books[k].encode(&moments[k][c], divisor);
                    store(new.codes[k].add(first + at), 1, LANES.min(len - at), &codes);
                }
                *new.scales[k].add(block) = scale;
            }
        }
    }
}

/// Updates parameters; returns the new moments.
#[inline(always)]
fn step_of<L: Level>(
    step: AdamWStep,
    gs: &[f32; LANES],
    ps: &mut [f32; LANES],
    mut m: [f32; LANES],
    mut v: [f32; LANES],
) -> ([f32; LANES], [f32; LANES]) {
    for i in 0..LANES {
        (ps[i], m[i], v[i]) = step.element::<L>(gs[i], ps[i], m[i], v[i]);
    }
    (m, v)
}

/// The largest magnitude of a block; NaN if there is one.
#[inline(always)]
fn largest(block: &[[f32; LANES]; BLOCK / LANES]) -> f32 {
    let mut lanes = [0.0; LANES];
    for chunk in block {
        for i in 0..LANES {
            lanes[i] = max(lanes[i], chunk[i].abs());
        }
    }
    fold(lanes, max)
}

/// The kernel of [`ops::AdamW8bit`]: by rows where blocks are whole.
pub(in crate::kernels) fn adamw_8bit_kernel(op: &ops::AdamW8bit, types: &Types<'_>) -> Option<Kernel> {
    let (constants, n) = (AdamWConstants::from(&op.rule), types.inputs[0].numel());
    let run = move |(first, n): (usize, usize), inputs: [*mut u8; 8], outputs: [*mut u8; 5]| {
        let block = first / BLOCK;
        let floats = |x: *mut u8, at: usize| x.cast::<f32>().wrapping_add(at);
        let old = Moments {
            codes: [2, 4].map(|i| inputs[i].wrapping_add(first).cast_const()),
            scales: [3, 5].map(|i| floats(inputs[i], block).cast_const()),
        };
        let new = NewMoments {
            codes: [1, 3].map(|i| outputs[i].wrapping_add(first)),
            scales: [2, 4].map(|i| floats(outputs[i], block)),
        };
        let [p, g] = [0, 1].map(|i| floats(inputs[i], first));
        // SAFETY: see `Run` and `Work`; each scalar has one element.
        unsafe {
            let [lr, t] = [6, 7].map(|i| *inputs[i].cast::<f32>());
            adamw_8bit(n, p, g, old, floats(outputs[0], first), new, lr, t, constants);
        }
    };
    if n.is_multiple_of(BLOCK) {
        return RowKernel::rows(move |r| {
            let (inputs, outputs) = (from_fn(|i| r.inputs[i].dense()), from_fn(|i| r.outputs[i].dense()));
            run((0, r.n * BLOCK), inputs, outputs);
        })
        .dense([0, 1, 2, 3, 4, 5])
        .into();
    }
    WholeKernel::dense(blocks(n).div_ceil(TASK), move |w, task| {
        let first = task * TASK * BLOCK;
        let (inputs, outputs) = (from_fn(|i| w.dense::<u8>(i).cast_mut()), from_fn(|i| w.outputs[i]));
        run((first, (TASK * BLOCK).min(n - first)), inputs, outputs);
    })
    .into()
}
