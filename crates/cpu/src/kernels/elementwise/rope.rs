//! Rotary position embeddings (Su et al. 2021).

use lessen_graph::ops;

use crate::kernels::kernel::{Kernel, RowKernel, Types};
use crate::kernels::rows::Rows;
use crate::math::cos_sin;
use crate::simd::{LANES, Level, chunks, dispatch, fma, load, store};

/// The rotation of the heads of a token.
#[derive(Clone, Copy)]
pub struct Rotation<'a> {
    /// The angle of each pair of elements at position 1, from -1 to 1; elements `i` and `i + frequencies.len()` of a
    /// head are a pair.
    pub frequencies: &'a [f64],
    /// Heads of each token.
    pub heads: usize,
    /// The positions of the tokens of a sequence; `first` is the index of the first row in it.
    pub positions: &'a [i32],
    /// Number of rows before the first row; row `r` has the position `(first + r) % positions.len()`.
    pub first: usize,
}

dispatch! {
    /// Rotates `n` tokens, each `heads` heads of `2 frequencies.len()` elements, by the angles of their positions.
    ///
    /// # Safety
    /// The operands cover `n` rows of `heads` heads. `y` may lie exactly where `x` lies, or overlaps nothing. There is
    /// a position.
    pub unsafe fn rope(rotation: Rotation<'_>, n: usize, x: Rows<f32>, y: Rows<f32>) = rope_body;
}

#[inline(always)]
unsafe fn rope_body<L: Level>(rotation: Rotation<'_>, n: usize, x: Rows<f32>, y: Rows<f32>) {
    let Rotation {
        frequencies, positions, ..
    } = rotation;
    for r in 0..n {
        let position = f64::from(positions[(rotation.first + r) % positions.len()]);
        chunks!(frequencies.len(), |j, len| {
            let (mut cos, mut sin) = ([1.0; LANES], [0.0; LANES]);
            for i in 0..len {
                (cos[i], sin[i]) = cos_sin::<L>(position * frequencies[j + i]);
            }
            for head in 0..rotation.heads {
                let first = 2 * head * frequencies.len() + j;
                // SAFETY: the elements of both halves lie within row `r`.
                unsafe {
                    let (from, to) = (x.element(r, first) as *const f32, y.element(r, first));
                    let half = frequencies.len();
                    if x.col == 1 && y.col == 1 {
                        rotate::<L>(len, half, (&cos, &sin), (from, 1), (to, 1));
                    } else {
                        rotate::<L>(len, half, (&cos, &sin), (from, x.col), (to, y.col));
                    }
                }
            }
        });
    }
}

/// Rotates `len` pairs; the second element of a pair lies `half` columns after the first element.
#[inline(always)]
unsafe fn rotate<L: Level>(
    len: usize,
    half: usize,
    (cos, sin): (&[f32; LANES], &[f32; LANES]),
    (x, x_col): (*const f32, usize),
    (y, y_col): (*mut f32, usize),
) {
    // SAFETY: the elements lie within the row; both chunks are read before any of them is written.
    unsafe {
        let (mut a, mut b) = (load(x, x_col, len, 0.0), load(x.add(half * x_col), x_col, len, 0.0));
        for i in 0..LANES {
            let turned = fma::<L>(a[i], cos[i], -(b[i] * sin[i]));
            b[i] = fma::<L>(b[i], cos[i], a[i] * sin[i]);
            a[i] = turned;
        }
        store(y, y_col, len, &a);
        store(y.add(half * y_col), y_col, len, &b);
    }
}

/// The kernel of [`ops::Rope`].
pub(crate) fn rope_kernel(op: &ops::Rope, types: &Types<'_>) -> Option<Kernel> {
    let [_, tokens, heads, width] = types.inputs[0].shape[..] else {
        return None;
    };
    let sign = if op.inverse { -1.0 } else { 1.0 };
    let frequencies: Vec<f64> = op.frequencies(width).into_iter().map(|f| sign * f).collect();
    let kernel = RowKernel::rows(move |r| {
        // SAFETY: the operation's second input is one number for each token, which the entry reads densely.
        let positions = unsafe { std::slice::from_raw_parts(r.inputs[1].dense::<i32>(), tokens) };
        let rotation = Rotation {
            frequencies: &frequencies,
            heads,
            positions,
            first: r.first / r.c(),
        };
        // SAFETY: see `Run`.
        unsafe { rope(rotation, r.n, r.x(0), r.y(0)) }
    });
    kernel.into()
}
