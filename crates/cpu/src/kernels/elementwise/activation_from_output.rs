//! Derivatives of activation functions from their outputs.
//!
//! GELU and SiLU fall to one minimum and rise after it. With `t = y - minimum`, the derivative on the right of the
//! minimum is a polynomial in `sqrt(t)`, and on its left `y` times a polynomial in `sqrt(ln(minimum / y))`: in these
//! variables the derivative is smooth at the minimum, where it is as the root of `t`, and in the last variable it is
//! smooth far to the left, too.
//!
//! Near the minimum a rounded `y` stands for many arguments: with an error of `e`, for the arguments whose derivatives
//! are between the derivatives at `t - e`, or 0, and at `t + e`. The middle of these derivatives is about the
//! derivative at `max(t - shift, floor)`, where shift and floor are chosen by the outputs of the forward kernels.

use lessen_graph::ops;

use crate::kernels::kernel::{RowKernel, Types};
use crate::kernels::rows::{Rows, flatten};
use crate::math;
use crate::simd::{LANES, Level, chunks, dispatch, fma, load, store};

/// A function with one minimum.
///
/// The polynomials are minimax fits of the absolute error (Remez exchange in 40 digits over 2,500 arguments), whose
/// coefficients were rounded at the end. They err by at most 1.5e-5 on the right and 6e-7 on the left.
pub trait Valley: Copy {
    /// The minimum, rounded.
    const MINIMUM: f32;
    /// The minimum less the rounded minimum.
    const MINIMUM_LOW: f32;
    /// The number to subtract from `t` for the middle of the derivatives that `y` stands for.
    const SHIFT: f32;
    /// The `t` of the middle of the derivatives that the minimum stands for.
    const FLOOR: f32;
    /// From here on the derivative is 1, to 2e-5.
    const FLAT: f32;
    /// The derivative on the right is `s = sqrt(t)` times a polynomial in `2 s / s_max - 1`, with the `s_max` of
    /// `FLAT`.
    const RIGHT: [f32; 16];
    /// The derivative on the left is `y w` times a polynomial in `w = sqrt(ln(minimum / y))`, for `y / minimum` above
    /// 2^-24. Below, `y` is too small for it to matter.
    const LEFT: [f32; 8];
}

// Coefficients are written with one digit more than needed, to tell them from round numbers.
macro_rules! valleys {
    ($($(#[$doc:meta])* $name:ident: $minimum:literal + $low:literal, shift $shift:literal, floor $floor:literal,
        flat $flat:literal,
        right $right:expr, left $left:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, Debug)]
        pub struct $name;

        #[allow(clippy::excessive_precision)]
        impl Valley for $name {
            const MINIMUM: f32 = $minimum;
            const MINIMUM_LOW: f32 = $low;
            const SHIFT: f32 = $shift;
            const FLOOR: f32 = $floor;
            const FLAT: f32 = $flat;
            const RIGHT: [f32; 16] = $right;
            const LEFT: [f32; 8] = $left;
        }
    )*};
}

valleys! {
    /// `x Phi(x)`.
    Gelu: -0.169_971_212_744_712_83 + 5.264_809_2e-9, shift 1.14e-8, floor 1.14e-8, flat 4.9,
        right [
            9.958_111_05e-1, -8.144_788_15e-1, -4.085_994_36e-1, 7.807_081_94e-1, 5.802_273_15e-1, 3.192_955_85e-1,
            -6.532_036_07e-1, -2.407_419_44, -8.212_635_52e-1, 4.679_268_36, 2.580_518_48, -5.070_954_32,
            -2.328_660_01, 3.076_103_21, 7.428_277_73e-1, -8.060_526_25e-1,
        ],
        left [
            2.253_090_62, -1.196_325_66, 1.052_545_19, -6.827_023_03e-1, 3.280_166_39e-1, -1.083_396_3e-1,
            2.137_549_59e-2, -1.859_511_02e-3,
        ];
    /// GELU in the tanh form.
    GeluTanh: -0.170_040_756_464_004_52 + 5.892_750_5e-9, shift 1.21e-8, floor 1.02e-8, flat 4.6,
        right [
            1.019_656_06, -7.623_799_44e-1, -4.403_640_63e-1, 6.527_057_89e-1, 4.282_191_69e-1, 2.392_874_06e-1,
            -1.291_268_91e-1, -1.179_666_4, -1.324_401_86, 1.651_243_81, 2.490_748_17, -1.432_267_55,
            -1.908_688_64, 8.351_101_28e-1, 5.575_647_35e-1, -2.397_628_72e-1,
        ],
        left [
            2.249_836_68, -1.198_054_43, 1.061_521_53, -6.895_434_26e-1, 3.493_948_58e-1, -1.165_638_12e-1,
            2.206_588_72e-2, -1.792_714_47e-3,
        ];
    /// `x / (1 + e^-x)`.
    Silu: -0.278_464_555_740_356_45 + 1.297_928_3e-8, shift 4e-9, floor 1.1e-8, flat 14.0,
        right [
            5.684_185_03e-1, -6.981_788_28e-1, 6.021_485_92e-1, 3.773_056_86e-1, -1.548_348_07, 4.944_573_04e-1,
            2.066_001_65, -1.007_808_8, -2.792_540_79, 1.534_521_94, 2.822_443_96, -1.694_679_02,
            -1.696_819_07, 1.103_102_45, 4.414_358_14e-1, -3.068_136_57e-1,
        ],
        left [
            1.250_667_57, -8.963_265_42e-1, 5.741_272_57e-1, -4.191_915_39e-1, 2.553_752_96e-1, -9.819_107_5e-2,
            2.053_145_51e-2, -1.782_478_07e-3,
        ];
}

/// The derivative where the function is `y`, on the right of the minimum or on its left; NaN stays NaN.
#[inline(always)]
fn slope<L: Level, V: Valley>(y: f32, is_right: bool) -> f32 {
    let is_right = is_right | (y > 0.0);
    // The first difference is exact near the minimum.
    let t = (y - V::MINIMUM) - V::MINIMUM_LOW;
    // The floor falls slowly, so that it is 0 for numbers that are no outputs.
    let (shifted, floor) = (t - V::SHIFT, fma::<L>(0.0625, t, V::FLOOR));
    let t = if shifted > floor { shifted } else { floor };
    let t = if t < 0.0 { 0.0 } else { t };
    // With p = y / minimum = 1 - t / -minimum and the error of its rounding.
    const LEAST: f32 = 1.0 / 16_777_216.0;
    let scale = 1.0 / V::MINIMUM;
    let p = fma::<L>(scale, t, 1.0);
    let p = if p < LEAST { LEAST } else { p };
    let lost = fma::<L>(scale, t, 1.0 - p);
    let log = -(math::log::<L>(p) + lost);
    let log = if log < 0.0 { 0.0 } else { log };
    let root = if is_right { t } else { log }.sqrt();
    let centered = fma::<L>(2.0 / (V::FLAT - V::MINIMUM).sqrt(), root, -1.0);
    let right = root * math::poly::<L, 16>(centered, V::RIGHT);
    let right = if y > V::FLAT { 1.0 } else { right };
    let left = y * root * math::poly::<L, 8>(root, V::LEFT);
    if is_right { right } else { left }
}

dispatch! {
    /// `dx = dy g'(x)` for the `x` with `g(x) = y`, on the right of the minimum of `g` where `side` is not 0, and on
    /// its left elsewhere.
    ///
    /// # Safety
    /// The operands cover `n` rows of `c` elements; `dx` may lie exactly where `y` or `dy` lies, and overlaps nothing
    /// otherwise.
    pub unsafe fn backward_from_output[V: Valley](
        valley: V, n: usize, c: usize, y: Rows<f32>, side: Rows<u8>, dy: Rows<f32>, dx: Rows<f32>,
    ) = backward_body;
}

#[inline(always)]
unsafe fn backward_body<L: Level, V: Valley>(
    _: V,
    n: usize,
    c: usize,
    y: Rows<f32>,
    side: Rows<u8>,
    dy: Rows<f32>,
    dx: Rows<f32>,
) {
    flatten!(n, c, y, side, dy, dx);
    for r in 0..n {
        let row = (
            y.at(r) as *const f32,
            side.at(r) as *const u8,
            dy.at(r) as *const f32,
            dx.at(r),
        );
        // SAFETY: the rows lie within the operands.
        unsafe {
            match [y.col, side.col, dy.col, dx.col] {
                [1, 1, 1, 1] => backward_row::<L, V>(c, row, [1, 1, 1, 1]),
                cols => backward_row::<L, V>(c, row, cols),
            }
        }
    }
}

#[inline(always)]
unsafe fn backward_row<L: Level, V: Valley>(
    c: usize,
    (y, side, dy, dx): (*const f32, *const u8, *const f32, *mut f32),
    col: [usize; 4],
) {
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the rows; the chunks are read before any of them is written.
        unsafe {
            let ys = load(y.add(j * col[0]), col[0], len, 0.0);
            let sides = load(side.add(j * col[1]), col[1], len, 0);
            let dys = load(dy.add(j * col[2]), col[2], len, 0.0);
            let mut dxs = [0.0; LANES];
            for i in 0..LANES {
                dxs[i] = dys[i] * slope::<L, V>(ys[i], sides[i] != 0);
            }
            store(dx.add(j * col[3]), col[3], len, &dxs);
        }
    });
}

fn kernel<V: Valley + Send + Sync + 'static>(valley: V) -> RowKernel {
    // SAFETY: see `Run`.
    RowKernel::elementwise(move |r| unsafe {
        backward_from_output(valley, r.n, r.c(), r.x(0), r.inputs[1].rows(), r.x(2), r.y(0));
    })
}

/// The kernel of [`ops::GeluBackwardFromOutput`].
pub(crate) fn gelu_kernel(op: &ops::GeluBackwardFromOutput, _: &Types<'_>) -> RowKernel {
    if op.tanh { kernel(GeluTanh) } else { kernel(Gelu) }
}

/// The kernel of [`ops::SiluBackwardFromOutput`].
pub(crate) fn silu_kernel(_: &ops::SiluBackwardFromOutput, _: &Types<'_>) -> RowKernel {
    kernel(Silu)
}
