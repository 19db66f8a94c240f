//! Elementary functions in `f32` without branches, so that loops over them vectorize.
//!
//! Errors are at most about 2 units in the last place where nothing else is said. NaN gives NaN, and
//! infinities, zeros, overflow and subnormal numbers are treated as IEEE 754 asks. The polynomials are
//! minimax fits with coefficients rounded one after the other. A function's level only says whether
//! multiply-add is fused.

// Coefficients are written with one digit more than needed, to tell them from round numbers.
#![allow(clippy::excessive_precision)]

use crate::simd::{Level, fma};

/// `c[0] + c[1] x + ...` by Estrin's scheme in groups of four. Its dependency chain is less than half as long as that
/// of Horner's rule, and latency bounds these functions.
#[inline(always)]
pub(crate) fn poly<L: Level, const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let square = x * x;
    let fourth = square * square;
    let group = |i: usize| match N - i {
        0 => 0.0,
        1 => c[i],
        2 => fma::<L>(c[i + 1], x, c[i]),
        3 => fma::<L>(c[i + 2], square, fma::<L>(c[i + 1], x, c[i])),
        _ => fma::<L>(fma::<L>(c[i + 3], x, c[i + 2]), square, fma::<L>(c[i + 1], x, c[i])),
    };
    let mut i = (N - 1) / 4 * 4;
    let mut y = group(i);
    while i > 0 {
        i -= 4;
        y = fma::<L>(y, fourth, group(i));
    }
    y
}

/// Adding and subtracting it rounds a number below 2^22 to the nearest integer, ties to even; the integer
/// then also stands in the low bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has so few bits that its product with an exponent is exact.
const LN2_HIGH: f32 = 0.693_359_375;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// `e^x - 1 = 2^n (1 + p) - 1` as `(n, p)` for `-105 <= x <= 89`.
#[inline(always)]
fn exp_parts<L: Level>(x: f32) -> (i32, f32) {
    let shifted = fma::<L>(x, std::f32::consts::LOG2_E, ROUND);
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let whole = shifted - ROUND;
    let r = fma::<L>(whole, -LN2_LOW, fma::<L>(whole, -LN2_HIGH, x));
    let p = poly::<L, 6>(
        r,
        [
            0.5,
            1.666_666_6e-1,
            4.166_646_3e-2,
            8.333_570_3e-3,
            1.393_507_8e-3,
            1.974_024_8e-4,
        ],
    );
    (n, fma::<L>(p, r * r, r))
}

/// `2^n` for `-126 <= n <= 127`.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// `e^x`. Above 88.72 it is infinite, below -103.97 zero, between -103.97 and -87.3 subnormal.
#[inline(always)]
pub(crate) fn exp<L: Level>(x: f32) -> f32 {
    // The comparisons let NaN through.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -105.0 { -105.0 } else { x };
    let (n, p) = exp_parts::<L>(x);
    // 2^n in two factors: n reaches -151 and 128, which no single factor holds.
    let half = n >> 1;
    (p + 1.0) * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// `e^x` for `x <= 0`, and 0 below -87: weights of a softmax less their largest score. The error is at most about 2
/// units in the last place plus `|x|` of them; for `x > 88` the result is undefined.
#[inline(always)]
pub(crate) fn exp_below_zero<L: Level>(x: f32) -> f32 {
    if !L::FMA {
        let y = exp::<L>(x);
        return if x < -87.0 { 0.0 } else { y };
    }
    let shifted = fma::<L>(x, std::f32::consts::LOG2_E, ROUND_BIASED);
    let r = fma::<L>(x, std::f32::consts::LOG2_E, ROUND_BIASED - shifted);
    let y = scaled_power::<L>(r, shifted);
    if x < -87.0 { 0.0 } else { y }
}

/// Adding it rounds as [`ROUND`] does; the low bits of the sum are then the exponent of `2^n`, bias included.
const ROUND_BIASED: f32 = ROUND + 127.0;

/// `2^(n + r)` for `|r| <= 1/2` and `shifted = n + ROUND_BIASED`, with `-126 <= n <= 127`.
#[inline(always)]
fn scaled_power<L: Level>(r: f32, shifted: f32) -> f32 {
    let p = fma::<L>(1.532_649_33e-4, r, 1.339_081_21e-3);
    let p = fma::<L>(p, r, 9.618_505_84e-3);
    let p = fma::<L>(p, r, 5.550_359_93e-2);
    let p = fma::<L>(p, r, 2.402_264_77e-1);
    let p = fma::<L>(p, r, std::f32::consts::LN_2);
    fma::<L>(p, r, 1.0) * f32::from_bits(shifted.to_bits() << 23)
}

/// `e^x - 1` for `x <= 0` without cancellation; for other `x` the result is undefined.
#[inline(always)]
pub(crate) fn exp_minus_one_below_zero<L: Level>(x: f32) -> f32 {
    let x = if x > 0.0 { 0.0 } else { x };
    let x = if x < -30.0 { -30.0 } else { x };
    let (n, p) = exp_parts::<L>(x);
    let scale = power_of_two(n);
    fma::<L>(scale, p, scale - 1.0)
}

/// Natural logarithm: -inf at 0, NaN below.
#[inline(always)]
pub(crate) fn log<L: Level>(x: f32) -> f32 {
    let small = x < f32::MIN_POSITIVE;
    let scaled = if small { x * 8_388_608.0 } else { x };
    // x = 2^e m with m in [sqrt(1/2), sqrt(2)).
    const SQRT_HALF: i32 = 0x3f35_04f3;
    let bits = (scaled.to_bits() as i32).wrapping_sub(SQRT_HALF);
    let e = (bits >> 23) as f32 - if small { 23.0 } else { 0.0 };
    let f = f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF) as u32) - 1.0;
    let p = poly::<L, 9>(
        f,
        [
            3.333_331_3e-1,
            -2.500_000_9e-1,
            2.000_207_3e-1,
            -1.666_799_6e-1,
            1.422_032_7e-1,
            -1.240_603_2e-1,
            1.188_356_8e-1,
            -1.167_144_9e-1,
            6.750_957e-2,
        ],
    );
    let square = f * f;
    let tail = fma::<L>(e, LN2_LOW, fma::<L>(p, square * f, -0.5 * square));
    let y = fma::<L>(e, LN2_HIGH, f + tail);
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f32::NAN }
}

/// Hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh<L: Level>(x: f32) -> f32 {
    let a = x.abs();
    let square = x * x;
    let p = poly::<L, 5>(
        square,
        [
            -3.333_328e-1,
            1.333_140_9e-1,
            -5.373_691_8e-2,
            2.062_983_6e-2,
            -5.694_468e-3,
        ],
    );
    let near = fma::<L>(p, square * x, x);
    let far = 1.0 - 2.0 / (exp::<L>(2.0 * a) + 1.0);
    if a < 0.625 { near } else { far.copysign(x) }
}

/// `-ln(erfc(t))` for `t >= 0`, such that `erfc` has an absolute error of about 1e-8; `erfc` is 0 from 10.2.
#[inline(always)]
fn neg_ln_erfc<L: Level>(t: f32) -> f32 {
    let t = if t > 10.2 { 10.2 } else { t };
    t * poly::<L, 12>(
        t,
        [
            1.128_379_6,
            6.366_117_6e-1,
            1.028_227_5e-1,
            -1.927_068_3e-2,
            -9.831_107e-6,
            1.580_709_2e-3,
            -6.297_933e-4,
            1.383_743_1e-4,
            -1.880_892_9e-5,
            1.558_339_7e-6,
            -7.188_12e-8,
            1.412_243_5e-9,
        ],
    )
}

/// The error function.
#[inline(always)]
pub(crate) fn erf<L: Level>(x: f32) -> f32 {
    let a = x.abs();
    let square = x * x;
    let p = poly::<L, 7>(
        square,
        [
            1.283_791_7e-1,
            -3.761_263e-1,
            1.128_361e-1,
            -2.685_366_8e-2,
            5.183_512_3e-3,
            -7.895_295e-4,
            7.060_751_5e-5,
        ],
    );
    let near = fma::<L>(p, x, x);
    let far = 1.0 - exp::<L>(-neg_ln_erfc::<L>(a));
    if a < 0.8 { near } else { far.copysign(x) }
}

/// The distribution function of the standard normal distribution, `(1 + erf(x / sqrt(2))) / 2`. The error is at most
/// about `1e-7`, and `2e-6` of the result down to `x = -5`; below -9 the result is 0.
#[inline(always)]
pub(crate) fn normal_cdf<L: Level>(x: f32) -> f32 {
    /// `(1 + log2 Phi(-t)) / t`, fitted for `t <= 9`, the highest power first.
    const SLOPE: [f32; 11] = [
        1.753_152_73e-9,
        -7.197_984_08e-8,
        1.287_961_14e-6,
        -1.313_007_85e-5,
        8.187_816_27e-5,
        -2.833_771_58e-4,
        -1.286_402_58e-5,
        6.979_922_3e-3,
        -5.247_149_24e-2,
        -4.592_094_42e-1,
        -1.151_105_52,
    ];
    let t = x.abs();
    let mut slope = SLOPE[0];
    for c in &SLOPE[1..] {
        slope = fma::<L>(slope, t, *c);
    }
    const ROUND_HALVED: f32 = ROUND_BIASED - 1.0;
    let shifted = fma::<L>(slope, t, ROUND_HALVED);
    let power = scaled_power::<L>(fma::<L>(slope, t, ROUND_HALVED - shifted), shifted);
    let tail = if t < 9.0 { power } else { 0.0 };
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// `1 / (1 + e^-x)`; zero below about -88.
#[inline(always)]
pub(crate) fn sigmoid<L: Level>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<L>(-x))
}

/// The largest `|x|` for which [`sin_shifted`] is accurate; beyond it the result is undefined.
pub(crate) const TRIGONOMETRIC_LIMIT: f32 = 8192.0;

/// `x` less the nearest multiple `n` of pi/2, and `n`.
#[inline(always)]
fn reduce<L: Level>(x: f32) -> (f32, i32) {
    let shifted = fma::<L>(x, std::f32::consts::FRAC_2_PI, ROUND);
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let whole = shifted - ROUND;
    // pi/2 in three parts, the first two of so few bits that their products with n are exact.
    let r = fma::<L>(whole, -1.570_312_5, x);
    let r = fma::<L>(whole, -4.837_513e-4, r);
    (fma::<L>(whole, -7.549_79e-8, r), n)
}

/// Sine and cosine of `|r| <= pi/4`.
#[inline(always)]
fn sin_cos_near<L: Level>(r: f32) -> (f32, f32) {
    let square = r * r;
    let s = poly::<L, 4>(square, [-1.666_666_7e-1, 8.333_379e-3, -1.985_309_1e-4, 2.833_043_7e-6]);
    let c = poly::<L, 4>(square, [4.166_666_8e-2, -1.388_898e-3, 2.482_202_2e-5, -2.888_121_5e-7]);
    (
        fma::<L>(s, square * r, r),
        fma::<L>(c, square * square, fma::<L>(square, -0.5, 1.0)),
    )
}

/// Cosine and sine of an angle whose magnitude is below 2^31, which is reduced in `f64`.
#[inline(always)]
pub(crate) fn cos_sin<L: Level>(angle: f64) -> (f32, f32) {
    /// The sum with it rounds to whole numbers, which then lie in the last bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let shifted = angle * std::f64::consts::FRAC_2_PI + ROUND;
    let n = shifted.to_bits() as i32;
    let (s, c) = sin_cos_near::<L>((angle - (shifted - ROUND) * std::f64::consts::FRAC_PI_2) as f32);
    let (cos, sin) = if n & 1 == 0 { (c, s) } else { (s, c) };
    let negative_cos = n.wrapping_add(1) & 2 != 0;
    (
        if negative_cos { -cos } else { cos },
        if n & 2 != 0 { -sin } else { sin },
    )
}

/// `sin(x + quarters pi/2)` for `|x| <= TRIGONOMETRIC_LIMIT`: with 0 the sine, with 1 the cosine.
#[inline(always)]
pub(crate) fn sin_shifted<L: Level>(x: f32, quarters: i32) -> f32 {
    let (r, n) = reduce::<L>(x);
    let (s, c) = sin_cos_near::<L>(r);
    let n = n.wrapping_add(quarters);
    let y = if n & 1 == 0 { s } else { c };
    if n & 2 == 0 { y } else { -y }
}
