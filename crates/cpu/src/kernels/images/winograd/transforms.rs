//! The transforms of minimal filtering at the points 0, 5/8, -5/8, 3/2, -3/2 and infinity (Cook and Toom), along the
//! channels of a tile. Results at these points err less than half as much as at the usual 0, 1, -1, 2, -2, and but for
//! the scales of the weight all constants are exact.
//!
//! A transform is one of lines, which runs over the columns of a tile and then over the rows of what they became.

use super::POINTS;
use crate::kernels::widths::widths;
use crate::simd::{LANES, Level, dispatch, fma};

/// The points beside 0 and infinity are `A`, `-A`, `B` and `-B`. The names of powers end with their exponent.
const A: f32 = 0.625;
const B: f32 = 1.5;
const A2: f32 = A * A;
const B2: f32 = B * B;
const A3: f32 = A2 * A;
const B3: f32 = B2 * B;
const SUM: f32 = A2 + B2;
const PRODUCT: f32 = A2 * B2;

/// The scales of the weight at 0, at `A` and `-A`, and at `B` and `-B`: the reciprocal of the product of the point's
/// distances from the others.
const AT_ZERO: f32 = 1.0 / PRODUCT;
const AT_A: f32 = 1.0 / (2.0 * A2 * (A2 - B2));
const AT_B: f32 = 1.0 / (2.0 * B2 * (B2 - A2));

/// Outputs of the weight that are transformed at once.
pub(super) const OUTPUTS: usize = 16;

/// A pixel outside the image.
static ZEROS: [f32; LANES] = [0.0; LANES];

/// `B^T d`.
#[inline(always)]
fn of_pixels<L: Level>([d0, d1, d2, d3, d4, d5]: [f32; 6]) -> [f32; 6] {
    let (even_a, odd_a) = (fma::<L>(-B2, d2, d4), fma::<L>(-B2, d1, d3));
    let (even_b, odd_b) = (fma::<L>(-A2, d2, d4), fma::<L>(-A2, d1, d3));
    [
        fma::<L>(PRODUCT, d0, fma::<L>(-SUM, d2, d4)),
        fma::<L>(A, odd_a, even_a),
        fma::<L>(-A, odd_a, even_a),
        fma::<L>(B, odd_b, even_b),
        fma::<L>(-B, odd_b, even_b),
        fma::<L>(PRODUCT, d1, fma::<L>(-SUM, d3, d5)),
    ]
}

/// `A^T m`.
#[inline(always)]
fn of_products<L: Level>([m0, m1, m2, m3, m4, m5]: [f32; 6]) -> [f32; 4] {
    let (sum_a, difference_a) = (m1 + m2, m1 - m2);
    let (sum_b, difference_b) = (m3 + m4, m3 - m4);
    [
        m0 + (sum_a + sum_b),
        fma::<L>(A, difference_a, B * difference_b),
        fma::<L>(A2, sum_a, B2 * sum_b),
        fma::<L>(A3, difference_a, fma::<L>(B3, difference_b, m5)),
    ]
}

/// `G g`.
#[inline(always)]
fn of_weights<L: Level>([g0, g1, g2]: [f32; 3]) -> [f32; 6] {
    let (even_a, even_b) = (fma::<L>(A2, g2, g0), fma::<L>(B2, g2, g0));
    [
        AT_ZERO * g0,
        AT_A * fma::<L>(A, g1, even_a),
        AT_A * fma::<L>(-A, g1, even_a),
        AT_B * fma::<L>(B, g1, even_b),
        AT_B * fma::<L>(-B, g1, even_b),
        g2,
    ]
}

/// `A y`, the transpose of [`of_products`].
#[inline(always)]
fn of_cotangents<L: Level>([y0, y1, y2, y3]: [f32; 4]) -> [f32; 6] {
    let (even_a, odd_a) = (fma::<L>(A2, y2, y0), fma::<L>(A2, y3, y1));
    let (even_b, odd_b) = (fma::<L>(B2, y2, y0), fma::<L>(B2, y3, y1));
    [
        y0,
        fma::<L>(A, odd_a, even_a),
        fma::<L>(-A, odd_a, even_a),
        fma::<L>(B, odd_b, even_b),
        fma::<L>(-B, odd_b, even_b),
        y3,
    ]
}

/// `G^T s`, the transpose of [`of_weights`].
#[inline(always)]
fn of_sums<L: Level>([s0, s1, s2, s3, s4, s5]: [f32; 6]) -> [f32; 3] {
    let (sum_a, difference_a) = (AT_A * (s1 + s2), AT_A * (s1 - s2));
    let (sum_b, difference_b) = (AT_B * (s3 + s4), AT_B * (s3 - s4));
    [
        fma::<L>(AT_ZERO, s0, sum_a + sum_b),
        fma::<L>(A, difference_a, B * difference_b),
        fma::<L>(A2, sum_a, fma::<L>(B2, sum_b, s5)),
    ]
}

/// Transforms `W` channels of a square, whose elements are sums of `P` numbers, along its columns and then along its
/// rows.
///
/// # Safety
/// The elements are readable and writable; what is written overlaps nothing that is read.
#[inline(always)]
unsafe fn square<const I: usize, const O: usize, const W: usize, const P: usize>(
    from: impl Fn(usize, usize) -> [*const f32; P],
    line: impl Fn([f32; I]) -> [f32; O],
    to: impl Fn(usize, usize) -> *mut f32,
) {
    let mut half = [[[0.0; W]; I]; O];
    for column in 0..I {
        let read: [[*const f32; P]; I] = std::array::from_fn(|row| from(row, column));
        for lane in 0..W {
            // SAFETY: passed on.
            let number = |row: usize, part: usize| unsafe { *read[row][part].add(lane) };
            let out = line(std::array::from_fn(|row| {
                (1..P).fold(number(row, 0), |sum, part| sum + number(row, part))
            }));
            for row in 0..O {
                half[row][column][lane] = out[row];
            }
        }
    }
    for row in 0..O {
        let written: [*mut f32; O] = std::array::from_fn(|column| to(row, column));
        for lane in 0..W {
            let out = line(std::array::from_fn(|column| half[row][column][lane]));
            for column in 0..O {
                // SAFETY: passed on.
                unsafe { *written[column].add(lane) = out[column] };
            }
        }
    }
}

dispatch! {
    /// Transforms the pixels that a tile reads: `count` channels of them from `x` on, where pixels are `row` elements
    /// apart. Elements of the transformed tile are `apart` elements apart.
    ///
    /// # Safety
    /// The pixels have the channels, and `to` room for the transformed tile, which overlaps nothing.
    pub(super) unsafe fn transform_pixels(
        pixels: &[[Option<usize>; 6]; 6], row: usize, count: usize, x: *const f32, to: *mut f32, apart: usize,
    ) = transform_pixels_body;

    /// Transforms the cotangents of a tile's pixels, as above.
    ///
    /// # Safety
    /// As above.
    pub(super) unsafe fn transform_cotangents(
        pixels: &[[Option<usize>; 4]; 4], row: usize, count: usize, dy: *const f32, to: *mut f32, apart: usize,
    ) = transform_cotangents_body;

    /// Makes `count` channels of a tile of the result of the two halves of their products, which are `apart` elements
    /// apart; pixels of `y` are `row` elements apart.
    ///
    /// # Safety
    /// The products are there, and nobody else accesses these channels of the tile's pixels.
    pub(super) unsafe fn transform_products(
        pixels: &[[Option<usize>; 4]; 4], row: usize, count: usize, halves: [*const f32; 2], apart: usize, y: *mut f32,
    ) = transform_products_body;

    /// Transforms the weight for one input and `count` outputs, at most [`OUTPUTS`], `output` elements apart; those
    /// that are absent are zeros. Its taps come in turned order if `is_turned`. Elements of the transformed weight are
    /// `apart` elements apart.
    ///
    /// # Safety
    /// The weight has the outputs, and `to` has room for [`OUTPUTS`] of them.
    pub(super) unsafe fn transform_weights(
        weight: *const f32, output: usize, count: usize, is_turned: bool, to: *mut f32, apart: usize,
    ) = transform_weights_body;

    /// Makes the gradient of the weight for one input and `count` outputs, at most [`OUTPUTS`], of its sums, which are
    /// `apart` elements apart; outputs of the weight are `output` elements apart.
    ///
    /// # Safety
    /// The sums are there, and nobody else accesses these elements of the gradient.
    pub(super) unsafe fn transform_sums(
        sums: *const f32, apart: usize, count: usize, weight: *mut f32, output: usize,
    ) = transform_sums_body;
}

#[inline(always)]
unsafe fn transform_pixels_body<L: Level>(
    pixels: &[[Option<usize>; 6]; 6],
    row: usize,
    count: usize,
    x: *const f32,
    to: *mut f32,
    apart: usize,
) {
    widths!(count, |c, W| {
        // SAFETY: passed on.
        unsafe {
            square::<6, 6, W, 1>(
                |i, j| [pixels[i][j].map_or(ZEROS.as_ptr(), |at| x.wrapping_add(at * row + c))],
                of_pixels::<L>,
                |i, j| to.wrapping_add((i * 6 + j) * apart + c),
            );
        }
    });
}

#[inline(always)]
unsafe fn transform_cotangents_body<L: Level>(
    pixels: &[[Option<usize>; 4]; 4],
    row: usize,
    count: usize,
    dy: *const f32,
    to: *mut f32,
    apart: usize,
) {
    widths!(count, |c, W| {
        // SAFETY: passed on.
        unsafe {
            square::<4, 6, W, 1>(
                |i, j| [pixels[i][j].map_or(ZEROS.as_ptr(), |at| dy.wrapping_add(at * row + c))],
                of_cotangents::<L>,
                |i, j| to.wrapping_add((i * 6 + j) * apart + c),
            );
        }
    });
}

#[inline(always)]
unsafe fn transform_products_body<L: Level>(
    pixels: &[[Option<usize>; 4]; 4],
    row: usize,
    count: usize,
    halves: [*const f32; 2],
    apart: usize,
    y: *mut f32,
) {
    // Takes the pixels outside the result.
    let mut outside = [0.0; LANES];
    let outside = outside.as_mut_ptr();
    widths!(count, |c, W| {
        // SAFETY: passed on.
        unsafe {
            square::<6, 4, W, 2>(
                |i, j| halves.map(|half| half.wrapping_add((i * 6 + j) * apart + c)),
                of_products::<L>,
                |i, j| pixels[i][j].map_or(outside, |at| y.wrapping_add(at * row + c)),
            );
        }
    });
}

#[inline(always)]
unsafe fn transform_weights_body<L: Level>(
    weight: *const f32,
    output: usize,
    count: usize,
    is_turned: bool,
    to: *mut f32,
    apart: usize,
) {
    let mut taps = [[0.0; OUTPUTS]; 9];
    for (o, tap) in (0..count).flat_map(|o| (0..9).map(move |tap| (o, tap))) {
        // SAFETY: passed on.
        taps[if is_turned { 8 - tap } else { tap }][o] = unsafe { *weight.add(o * output + tap) };
    }
    // SAFETY: passed on.
    unsafe {
        square::<3, 6, OUTPUTS, 1>(
            |i, j| [taps[i * 3 + j].as_ptr()],
            of_weights::<L>,
            |i, j| to.wrapping_add((i * 6 + j) * apart),
        );
    }
}

#[inline(always)]
unsafe fn transform_sums_body<L: Level>(sums: *const f32, apart: usize, count: usize, weight: *mut f32, output: usize) {
    let mut points = [[0.0; OUTPUTS]; POINTS];
    let mut taps = [[0.0; OUTPUTS]; 9];
    let to = taps.as_mut_ptr();
    // SAFETY: passed on.
    unsafe {
        for (point, lanes) in points.iter_mut().enumerate() {
            lanes
                .as_mut_ptr()
                .copy_from_nonoverlapping(sums.add(point * apart), count);
        }
        square::<6, 3, OUTPUTS, 1>(
            |i, j| [points[i * 6 + j].as_ptr()],
            of_sums::<L>,
            |i, j| to.wrapping_add(i * 3 + j).cast(),
        );
        for (o, tap) in (0..count).flat_map(|o| (0..9).map(move |tap| (o, tap))) {
            *weight.add(o * output + tap) = taps[tap][o];
        }
    }
}
