//! The code of a number: `min(max(round(x / scale) + zero, 0), 255)`.

use lessen_graph::ops::QuantizeLinear;

use crate::kernels::map::Map;
use crate::simd::Level;

/// Beyond this many scales a number has the code of the first or the last level.
const MOST: f32 = 512.0;

/// How numbers become codes. The quotient by the scale is that of a division, from products: a product with the
/// rounded inverse, corrected by its exact remainder (Markstein 1990). Numbers and scale are multiplied by a power of
/// two before, so that neither the inverse nor the remainder leaves the range of `f32`.
#[derive(Clone, Copy)]
pub(crate) struct ToCode {
    /// The power of two.
    up: f32,
    /// The greatest magnitude that counts, of numbers times the power of two.
    most: f32,
    /// The scale times the power of two, and the inverse of that.
    scale: f32,
    inverse: f32,
    zero: f32,
}

impl ToCode {
    pub(crate) fn of(codes: QuantizeLinear) -> ToCode {
        let scale = codes.scale as f32;
        let exponent = ((scale.to_bits() >> 23) as i32 - 127).clamp(-127, 126);
        let up = 2f32.powi(-exponent);
        ToCode {
            most: MOST * (scale * up),
            up,
            scale: scale * up,
            inverse: 1.0 / (scale * up),
            zero: f32::from(codes.zero),
        }
    }
}

impl Map for ToCode {
    type X = f32;
    type Y = u8;

    #[inline(always)]
    fn map<L: Level>(self, x: f32) -> u8 {
        let x = x * self.up;
        // Comparisons with NaN are false, so that NaN becomes 0.
        let x = if x > -self.most { x } else { -self.most };
        let x = if x < self.most { x } else { self.most };
        let quotient = if L::FMA {
            let near = x * self.inverse;
            let rest = (-near).mul_add(self.scale, x);
            rest.mul_add(self.inverse, near)
        } else {
            x / self.scale
        };
        let code = quotient.round_ties_even() + self.zero;
        let code = if code > 0.0 { code } else { 0.0 };
        let code = if code < 255.0 { code } else { 255.0 };
        // SAFETY: the number is between 0 and 255.
        unsafe { code.to_int_unchecked::<i32>() as u8 }
    }
}
