//! The quantizer of Jiang (2023), section 2.3.3.3: linear and symmetric, by the largest magnitude of a row.

use lessen_graph::{Elementwise, Tensor, Vjp, named};

/// `y = x`, through which no gradient passes.
#[derive(PartialEq, Debug)]
struct Detached;

named!("detached": Detached {});

impl Elementwise for Detached {
    const INPUTS: usize = 1;

    fn element(&self, x: &[f64]) -> f64 {
        x[0]
    }

    fn decompose<'g>(&self, x: &[Tensor<'g>]) -> Option<Tensor<'g>> {
        Some(x[0].identity())
    }

    fn vjp<'g>(&self, _: &Vjp<'_, 'g>, _: Tensor<'g>) -> Vec<Option<Tensor<'g>>> {
        vec![None]
    }
}

/// The least magnitude by which numbers are divided: a row of zeros stays zeros.
const LEAST: f64 = 1e-12;

/// The bits of numbers that are not rounded at all.
pub const UNROUNDED: u32 = 32;

/// The largest of the codes of `bits` bits, `2^(bits - 1) - 1`.
pub fn largest_code(bits: u32) -> f64 {
    f64::from((1_u32 << (bits.clamp(2, 24) - 1)) - 1)
}

/// The largest magnitude of each row of the first axis of a weight or of images: `[N, 1, .., 1]`, without a gradient.
#[track_caller]
pub fn magnitudes(x: Tensor<'_>) -> Tensor<'_> {
    let axes: Vec<usize> = (1..x.rank()).collect();
    let mut shape = vec![1; x.rank()];
    shape[0] = x.dim(0);
    detached(x.abs().max_axes(&axes).reshape(&shape))
}

/// The same of images `[N, H, W, C]` whose channels count by factors `[C]`: channels of factor 0 do not count.
#[track_caller]
pub fn magnitudes_of_channels<'g>(x: Tensor<'g>, factors: Tensor<'g>) -> Tensor<'g> {
    let by_channel = x.abs().max_axes(&[1, 2]);
    detached((by_channel * factors).max_last().reshape(&[x.dim(0), 1, 1, 1]))
}

/// `round(clamp(x, -c, c) / s) s` with `s = c / largest` for magnitudes `c`, which have a size of 1 or of `x` in every
/// axis. The derivative is that of the clamp alone: rounding passes it straight through.
#[track_caller]
pub fn quantized<'g>(x: Tensor<'g>, magnitudes: Tensor<'g>, largest: Tensor<'g>) -> Tensor<'g> {
    let c = magnitudes.maximum(magnitudes.scalar_like(LEAST));
    let clamped = x.minimum(c).maximum(-c);
    let step = c / largest;
    let rounded = (clamped / step).round() * step;
    clamped + detached(rounded - clamped)
}

/// [`quantized`] to `bits` bits by the largest magnitude of each row of the first axis; with [`UNROUNDED`] bits `x`.
#[track_caller]
pub fn quantized_rows(x: Tensor<'_>, bits: u32) -> Tensor<'_> {
    if bits == UNROUNDED {
        return x;
    }
    quantized(x, magnitudes(x), x.scalar_like(largest_code(bits)))
}

#[track_caller]
fn detached(x: Tensor<'_>) -> Tensor<'_> {
    x.trace().apply1(Detached, &[x])
}
