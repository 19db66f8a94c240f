//! The numbers of arrays in memory, for functions that are written once for all types.

use half::{bf16, f16};

/// A number.
pub trait Number: Copy + PartialEq + PartialOrd + Default + std::fmt::Debug + Send + Sync + 'static {
    /// Whether it is a float.
    const IS_FLOAT: bool;
    /// Nought.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The least number; of floats minus infinity.
    const LEAST: Self;

    /// The nearest number to a float: floats round to even and overflow to infinity, integers saturate and NaN is
    /// zero.
    fn of_f64(x: f64) -> Self;
    /// The nearest number to a float, where integers cut fractions off and wrap as machines of today do: up to 16 bits
    /// and `i32` through 32 bits, others through 64, and what does not fit these is the least one.
    fn cut(x: f64) -> Self;
    /// The number as a float, which rounds integers beyond 2^53.
    fn to_f64(self) -> f64;
    /// An integer: floats round, integers wrap.
    fn of_i128(x: i128) -> Self;
    /// The integer, where fractions are cut off; NaN is zero, and infinities saturate.
    fn to_i128(self) -> i128;
    /// The sum, which wraps or rounds.
    fn plus(self, other: Self) -> Self;
    /// The difference, which wraps or rounds.
    fn minus(self, other: Self) -> Self;
    /// The product, which wraps or rounds.
    fn times(self, other: Self) -> Self;
    /// The quotient; of integers cut towards zero, and none by zero.
    fn over(self, other: Self) -> Option<Self>;
    /// Whether it is NaN.
    fn is_nan(self) -> bool;
}

/// A float.
pub trait Float: Number {}

/// An integer.
pub trait Integer: Number + Eq + Ord + std::hash::Hash {
    /// Its bits in the low end of 64.
    fn to_bits(self) -> u64;
    /// From the low bits of 64.
    fn of_bits(bits: u64) -> Self;
    /// The remainder, which has the dividend's sign; none by zero.
    fn rest(self, other: Self) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ident, $signed:literal);+ $(;)?) => { $(
        impl Number for $type {
            const IS_FLOAT: bool = false;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LEAST: Self = $type::MIN;

            #[inline]
            fn of_f64(x: f64) -> Self { x as $type }
            #[inline]
            fn cut(x: f64) -> Self { cut(x, $type::BITS, $signed) as $type }
            #[inline]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline]
            fn of_i128(x: i128) -> Self { x as $type }
            #[inline]
            fn to_i128(self) -> i128 { self as i128 }
            #[inline]
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline]
            fn minus(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline]
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline]
            fn over(self, other: Self) -> Option<Self> {
                (other != 0).then(|| self.wrapping_div(other))
            }
            #[inline]
            fn is_nan(self) -> bool { false }
        }

        impl Integer for $type {
            #[inline]
            fn to_bits(self) -> u64 { self as u64 }
            #[inline]
            fn of_bits(bits: u64) -> Self { bits as $type }
            #[inline]
            fn rest(self, other: Self) -> Option<Self> {
                (other != 0).then(|| self.wrapping_rem(other))
            }
        }
    )+ };
}

integers! {
    i8, true; i16, true; i32, true; i64, true;
    u8, false; u16, false; u32, false; u64, false;
}

macro_rules! floats {
    ($($type:ident, $of:expr, $to:expr, $of_integer:expr);+ $(;)?) => { $(
        impl Number for $type {
            const IS_FLOAT: bool = true;
            const ZERO: Self = $type::ZERO_;
            const ONE: Self = $type::ONE_;
            const LEAST: Self = $type::NEG_INFINITY;

            #[inline]
            fn of_f64(x: f64) -> Self { $of(x) }
            #[inline]
            fn cut(x: f64) -> Self { $of(x) }
            #[inline]
            fn to_f64(self) -> f64 { $to(self) }
            #[inline]
            fn of_i128(x: i128) -> Self { $of_integer(x) }
            #[inline]
            fn to_i128(self) -> i128 { $to(self) as i128 }
            #[inline]
            fn plus(self, other: Self) -> Self { self + other }
            #[inline]
            fn minus(self, other: Self) -> Self { self - other }
            #[inline]
            fn times(self, other: Self) -> Self { self * other }
            #[inline]
            fn over(self, other: Self) -> Option<Self> { Some(self / other) }
            #[inline]
            fn is_nan(self) -> bool { self != self }
        }

        impl Float for $type {}
    )+ };
}

/// Constants of floats by one name.
trait Constants {
    const ZERO_: Self;
    const ONE_: Self;
}

impl Constants for f32 {
    const ZERO_: f32 = 0.0;
    const ONE_: f32 = 1.0;
}

impl Constants for f64 {
    const ZERO_: f64 = 0.0;
    const ONE_: f64 = 1.0;
}

impl Constants for f16 {
    const ZERO_: f16 = f16::ZERO;
    const ONE_: f16 = f16::ONE;
}

impl Constants for bf16 {
    const ZERO_: bf16 = bf16::ZERO;
    const ONE_: bf16 = bf16::ONE;
}

floats! {
    f32, |x: f64| x as f32, f64::from, |x: i128| i64::try_from(x).map_or(x as f32, |x| x as f32);
    f64, |x: f64| x, |x: f64| x, |x: i128| i64::try_from(x).map_or(x as f64, |x| x as f64);
    f16, |x: f64| f16::from_f32(to_odd(x)), f16::to_f64, |x: i128| f16::from_f32(to_odd(integer_to_odd(x)));
    bf16, |x: f64| bf16::from_f32(to_odd(x)), bf16::to_f64, |x: i128| bf16::from_f32(to_odd(integer_to_odd(x)));
}

/// A float as an integer of `bits` bits, in the low bits.
fn cut(x: f64, bits: u32, is_signed: bool) -> i64 {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    let through_64 = |x: f64| {
        if (-TWO_63..TWO_63).contains(&x) {
            x as i64
        } else {
            i64::MIN
        }
    };
    match (bits, is_signed) {
        (..=16, _) | (32, true) => {
            // Compares what is left after the fraction is gone.
            let whole = x.trunc();
            let fits = whole >= f64::from(i32::MIN) && whole <= f64::from(i32::MAX);
            if fits { whole as i64 } else { i64::from(i32::MIN) }
        }
        (64, false) if x >= TWO_63 => through_64(x - TWO_63) ^ i64::MIN,
        _ => through_64(x),
    }
}

/// The neighbour in single precision whose last bit is one unless the number is there exactly, so that rounding it once
/// more is as good as rounding the number itself.
fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    if back == x || x.is_nan() {
        return near;
    }
    let inner = if back.abs() > x.abs() {
        near.to_bits() - 1
    } else {
        near.to_bits()
    };
    f32::from_bits(inner | 1)
}

/// The neighbour in double precision, by the same rule.
fn integer_to_odd(x: i128) -> f64 {
    let all = x.unsigned_abs();
    let dropped = (128 - all.leading_zeros()).saturating_sub(f64::MANTISSA_DIGITS);
    let kept = all >> dropped;
    let odd = kept | u128::from(kept << dropped != all);
    let magnitude = odd as f64 * 2f64.powi(dropped as i32);
    if x < 0 { -magnitude } else { magnitude }
}
