//! Conversions between dtypes.
//!
//! Floats round to nearest, ties to even. A float becomes an integer by dropping its fraction; beyond the
//! range it becomes the nearest end of it, and NaN becomes 0. Integers wrap. Everything but 0 is true; true
//! is 1.

use std::marker::PhantomData;

use lessen_graph::{DType, ops};

use crate::kernels::kernel::{Kernel, RowKernel, Types};
use crate::kernels::map::{Map, map, map_plain};
use crate::kernels::rows::{Element, Rows};
use crate::simd::Level;

/// An element of dtype bf16: the upper half of an `f32`.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// An element of dtype bool, one byte; anything but 0 is read as true.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
struct Bool(u8);

impl Element for Bf16 {}
impl Element for Bool {}

/// An element of kernels that compute in `f32`.
pub trait Float: Element {
    /// The number.
    fn wide(self) -> f32;

    /// The nearest one to a number.
    fn nearest(x: f32) -> Self;
}

impl Float for f32 {
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }

    #[inline(always)]
    fn nearest(x: f32) -> f32 {
        x
    }
}

impl Float for Bf16 {
    #[inline(always)]
    fn wide(self) -> f32 {
        widen(self)
    }

    #[inline(always)]
    fn nearest(x: f32) -> Bf16 {
        round_to_bf16(x)
    }
}

/// A conversion.
trait To<T> {
    fn to(self) -> T;
}

macro_rules! conversions {
    ($($from:ty => $to:ty, |$x:ident| $body:expr;)*) => {$(
        impl To<$to> for $from {
            #[inline(always)]
            fn to(self) -> $to {
                let $x = self;
                $body
            }
        }
    )*};
}

conversions! {
    f32 => f32, |x| x;
    f32 => f64, |x| f64::from(x);
    f32 => Bf16, |x| round_to_bf16(x);
    f32 => i32, |x| x as i32;
    f32 => u32, |x| x as u32;
    f32 => u8, |x| x as u8;
    f32 => Bool, |x| Bool(u8::from(x != 0.0));
    f64 => f32, |x| x as f32;
    f64 => f64, |x| x;
    f64 => Bf16, |x| round_to_bf16(x as f32);
    f64 => i32, |x| x as i32;
    f64 => u32, |x| x as u32;
    f64 => u8, |x| x as u8;
    f64 => Bool, |x| Bool(u8::from(x != 0.0));
    Bf16 => f32, |x| widen(x);
    Bf16 => f64, |x| f64::from(widen(x));
    Bf16 => Bf16, |x| x;
    Bf16 => i32, |x| widen(x) as i32;
    Bf16 => u32, |x| widen(x) as u32;
    Bf16 => u8, |x| widen(x) as u8;
    Bf16 => Bool, |x| Bool(u8::from(widen(x) != 0.0));
    i32 => f32, |x| x as f32;
    i32 => f64, |x| f64::from(x);
    i32 => Bf16, |x| round_to_bf16(x as f32);
    i32 => i32, |x| x;
    i32 => u32, |x| x as u32;
    i32 => u8, |x| x as u8;
    i32 => Bool, |x| Bool(u8::from(x != 0));
    u32 => f32, |x| x as f32;
    u32 => f64, |x| f64::from(x);
    u32 => Bf16, |x| round_to_bf16(x as f32);
    u32 => i32, |x| x as i32;
    u32 => u32, |x| x;
    u32 => u8, |x| x as u8;
    u32 => Bool, |x| Bool(u8::from(x != 0));
    u8 => f32, |x| f32::from(x);
    u8 => f64, |x| f64::from(x);
    u8 => Bf16, |x| round_to_bf16(f32::from(x));
    u8 => i32, |x| i32::from(x);
    u8 => u32, |x| u32::from(x);
    u8 => u8, |x| x;
    u8 => Bool, |x| Bool(u8::from(x != 0));
    Bool => f32, |x| f32::from(u8::from(x.0 != 0));
    Bool => f64, |x| f64::from(u8::from(x.0 != 0));
    Bool => Bf16, |x| if x.0 != 0 { Bf16(0x3f80) } else { Bf16(0) };
    Bool => i32, |x| i32::from(x.0 != 0);
    Bool => u32, |x| u32::from(x.0 != 0);
    Bool => u8, |x| u8::from(x.0 != 0);
    Bool => Bool, |x| x;
}

#[inline(always)]
pub(crate) fn widen(x: Bf16) -> f32 {
    f32::from_bits(u32::from(x.0) << 16)
}

/// To nearest, ties to even; NaN stays NaN.
#[inline(always)]
fn round_to_bf16(x: f32) -> Bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    // A NaN whose payload lies in the lower half only would become infinite without the quiet bit.
    let bits = if x.is_nan() { bits | 0x0040_0000 } else { rounded };
    Bf16((bits >> 16) as u16)
}

#[derive(Clone, Copy)]
struct Cast<A, B>(PhantomData<(A, B)>);

impl<A: Element + To<B>, B: Element> Map for Cast<A, B> {
    type X = A;
    type Y = B;
    #[inline(always)]
    fn map<L: Level>(self, x: A) -> B {
        x.to()
    }
}

/// `y = x` in another dtype. Pointers are to the elements' first bytes; strides count elements.
///
/// # Safety
/// The operands cover `n` rows of `c` elements of their dtypes. `y` may lie exactly where `x` lies if the
/// dtypes have the same size; otherwise they do not overlap.
pub unsafe fn cast(from: DType, to: DType, n: usize, c: usize, x: Rows<u8>, y: Rows<u8>) {
    // SAFETY: passed on.
    unsafe {
        match (from, to) {
            (DType::F32, DType::BF16) => return map(Cast::<f32, Bf16>(PhantomData), n, c, x.cast(), y.cast()),
            (DType::BF16, DType::F32) => return map(Cast::<Bf16, f32>(PhantomData), n, c, x.cast(), y.cast()),
            _ => {}
        }
        match from {
            DType::F32 => cast_from::<f32>(to, n, c, x.cast(), y),
            DType::F64 => cast_from::<f64>(to, n, c, x.cast(), y),
            DType::BF16 => cast_from::<Bf16>(to, n, c, x.cast(), y),
            DType::I32 => cast_from::<i32>(to, n, c, x.cast(), y),
            DType::U32 => cast_from::<u32>(to, n, c, x.cast(), y),
            DType::U8 => cast_from::<u8>(to, n, c, x, y),
            DType::Bool => cast_from::<Bool>(to, n, c, x.cast(), y),
        }
    }
}

unsafe fn cast_from<A>(to: DType, n: usize, c: usize, x: Rows<A>, y: Rows<u8>)
where
    A: Element + To<f32> + To<f64> + To<Bf16> + To<i32> + To<u32> + To<u8> + To<Bool>,
{
    // SAFETY: passed on.
    unsafe {
        match to {
            DType::F32 => map_plain(Cast::<A, f32>(PhantomData), n, c, x, y.cast()),
            DType::F64 => map_plain(Cast::<A, f64>(PhantomData), n, c, x, y.cast()),
            DType::BF16 => map_plain(Cast::<A, Bf16>(PhantomData), n, c, x, y.cast()),
            DType::I32 => map_plain(Cast::<A, i32>(PhantomData), n, c, x, y.cast()),
            DType::U32 => map_plain(Cast::<A, u32>(PhantomData), n, c, x, y.cast()),
            DType::U8 => map_plain(Cast::<A, u8>(PhantomData), n, c, x, y),
            DType::Bool => map_plain(Cast::<A, Bool>(PhantomData), n, c, x, y.cast()),
        }
    }
}

/// The kernel of [`ops::Cast`].
pub(crate) fn cast_kernel(op: &ops::Cast, types: &Types<'_>) -> Option<Kernel> {
    let (from, to) = (types.inputs[0].dtype, op.dtype);
    // SAFETY: see `Run`.
    RowKernel::elementwise(move |r| unsafe {
        cast(from, to, r.n, r.c(), r.inputs[0].rows(), r.outputs[0].rows());
    })
    .into()
}
