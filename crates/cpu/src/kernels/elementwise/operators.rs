//! Elementwise functions, comparisons, selection and copies of blocks of rows.
//!
//! Every function takes `n` rows of `c` elements. An output may lie exactly where an input of the same
//! element size lies (same pointer and strides); otherwise operands do not overlap.

use std::hint::select_unpredictable;

use lessen_graph::DType;
use lessen_graph::ops::{self, BinaryKind, CompareKind, UnaryKind};

use crate::kernels::kernel::{Kernel, RowKernel, Types};
use crate::kernels::map::{Map, Zip, map, map_plain, maps, zip, zips};
use crate::kernels::rows::{Element, Rows, flatten};
use crate::math;
use crate::simd::{LANES, Level, chunks, dispatch, load, store};

maps! {
    Neg: f32 => f32, |x| -x;
    Exp: f32 => f32, |x| math::exp::<L>(x);
    Log: f32 => f32, |x| math::log::<L>(x);
    Sqrt: f32 => f32, |x| x.sqrt();
    Rsqrt: f32 => f32, |x| 1.0 / x.sqrt();
    Recip: f32 => f32, |x| 1.0 / x;
    Tanh: f32 => f32, |x| math::tanh::<L>(x);
    Erf: f32 => f32, |x| math::erf::<L>(x);
    Sigmoid: f32 => f32, |x| math::sigmoid::<L>(x);
    Abs: f32 => f32, |x| x.abs();
    // A comparison with zero keeps the zero's sign and NaN.
    Sign: f32 => f32, |x| if x.abs() > 0.0 { 1f32.copysign(x) } else { x };
    Floor: f32 => f32, |x| x.floor();
    Ceil: f32 => f32, |x| x.ceil();
    Round: f32 => f32, |x| x.round_ties_even();
    Half: f32 => f32, |x| half(x);
}

/// The nearest number of IEEE 754 binary16; of two, the one whose last bit is 0.
#[inline(always)]
fn half(x: f32) -> f32 {
    /// The least number that is rounded to infinity, and the least that has all bits.
    const BEYOND: f32 = 65520.0;
    const NORMAL: f32 = 6.103_515_6e-5;
    /// Sums with it are multiples of 2^-24.
    const APART: f32 = 0.5;
    let a = x.abs();
    let bits = a.to_bits();
    // Half of the last bit that stays, less one where that bit is 0.
    let rounded = f32::from_bits(bits.wrapping_add(0xfff).wrapping_add((bits >> 13) & 1) & !0x1fff);
    let small = (a + APART) - APART;
    let finite = if a < NORMAL { small } else { rounded };
    let y = if a < BEYOND { finite } else { f32::INFINITY };
    // NaN stays what it is.
    if x.is_nan() { x } else { y.copysign(x) }
}

zips! {
    Add: f32 => f32, |a, b| a + b;
    Sub: f32 => f32, |a, b| a - b;
    Mul: f32 => f32, |a, b| a * b;
    Div: f32 => f32, |a, b| a / b;
    Max: f32 => f32, |a, b| crate::simd::max(a, b);
    Min: f32 => f32, |a, b| crate::simd::min(a, b);
    // A square is by far the most common power, and the product is its correctly rounded value. Whether the exponent is
    // one number for all elements must not change the bits.
    Pow: f32 => f32, |a, b| if b == 2.0 { a * a } else { a.powf(b) };
    AddI32: i32 => i32, |a, b| a.wrapping_add(b);
    SubI32: i32 => i32, |a, b| a.wrapping_sub(b);
    MulI32: i32 => i32, |a, b| a.wrapping_mul(b);
    DivI32: i32 => i32, |a, b| if b == 0 { 0 } else { a.wrapping_div(b) };
    MaxI32: i32 => i32, |a, b| a.max(b);
    MinI32: i32 => i32, |a, b| a.min(b);
}

/// `y = f(x)`. For [`UnaryKind::Rsqrt`] and the like at the ends of their domains, as IEEE 754: `1 / sqrt(0)`
/// is infinite, the root of a negative number NaN.
///
/// # Safety
/// The operands cover `n` rows of `c` elements; see the module for overlaps.
pub unsafe fn unary(kind: UnaryKind, n: usize, c: usize, x: Rows<f32>, y: Rows<f32>) {
    // SAFETY: passed on.
    unsafe {
        match kind {
            UnaryKind::Neg => map(Neg, n, c, x, y),
            UnaryKind::Exp => map(Exp, n, c, x, y),
            UnaryKind::Log => map(Log, n, c, x, y),
            UnaryKind::Sqrt => map(Sqrt, n, c, x, y),
            UnaryKind::Rsqrt => map(Rsqrt, n, c, x, y),
            UnaryKind::Recip => map(Recip, n, c, x, y),
            UnaryKind::Tanh => map(Tanh, n, c, x, y),
            UnaryKind::Erf => map(Erf, n, c, x, y),
            UnaryKind::Sigmoid => map(Sigmoid, n, c, x, y),
            UnaryKind::Abs => map(Abs, n, c, x, y),
            UnaryKind::Sign => map(Sign, n, c, x, y),
            UnaryKind::Sin => trigonometric(0, n, c, x, y),
            UnaryKind::Cos => trigonometric(1, n, c, x, y),
            UnaryKind::Floor => map(Floor, n, c, x, y),
            UnaryKind::Ceil => map(Ceil, n, c, x, y),
            UnaryKind::Round => map(Round, n, c, x, y),
            UnaryKind::Half => map(Half, n, c, x, y),
        }
    }
}

/// `y = f(a, b)`. The smaller and the larger of two numbers are NaN if either is.
///
/// # Safety
/// As for [`unary`].
pub unsafe fn binary(kind: BinaryKind, n: usize, c: usize, a: Rows<f32>, b: Rows<f32>, y: Rows<f32>) {
    // SAFETY: passed on.
    unsafe {
        match kind {
            BinaryKind::Add => zip(Add, n, c, a, b, y),
            BinaryKind::Sub => zip(Sub, n, c, a, b, y),
            BinaryKind::Mul => zip(Mul, n, c, a, b, y),
            BinaryKind::Div => zip(Div, n, c, a, b, y),
            BinaryKind::Max => zip(Max, n, c, a, b, y),
            BinaryKind::Min => zip(Min, n, c, a, b, y),
            BinaryKind::Pow if b.row == 0 && b.col == 0 && n * c > 0 && *b.ptr == 2.0 => {
                zip(Mul, n, c, a, a, y);
            }
            BinaryKind::Pow => zip(Pow, n, c, a, b, y),
        }
    }
}

/// [`binary`] for integers: sums, differences and products wrap around; quotients are truncated towards zero,
/// and 0 where `b` is 0. Powers truncate the power of the real numbers, towards zero and to the range of
/// `i32`.
///
/// # Safety
/// As for [`unary`].
pub unsafe fn binary_i32(kind: BinaryKind, n: usize, c: usize, a: Rows<i32>, b: Rows<i32>, y: Rows<i32>) {
    // SAFETY: passed on.
    unsafe {
        match kind {
            BinaryKind::Add => zip(AddI32, n, c, a, b, y),
            BinaryKind::Sub => zip(SubI32, n, c, a, b, y),
            BinaryKind::Mul => zip(MulI32, n, c, a, b, y),
            BinaryKind::Div => zip(DivI32, n, c, a, b, y),
            BinaryKind::Max => zip(MaxI32, n, c, a, b, y),
            BinaryKind::Min => zip(MinI32, n, c, a, b, y),
            BinaryKind::Pow => zip(PowI32, n, c, a, b, y),
        }
    }
}

zips! { PowI32: i32 => i32, |a, b| f64::from(a).powf(f64::from(b)) as i32; }

/// Types that [`compare`] takes.
pub trait Comparable: Element + PartialOrd {}
impl Comparable for f32 {}
impl Comparable for i32 {}
impl Comparable for u32 {}
impl Comparable for u8 {}

/// Declares comparisons of any type.
macro_rules! comparisons {
    ($($name:ident: $op:tt;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name<T>(std::marker::PhantomData<T>);
        impl<T: Comparable> Zip for $name<T> {
            type X = T;
            type Y = u8;
            #[inline(always)]
            fn zip<L: Level>(self, a: T, b: T) -> u8 { u8::from(a $op b) }
        }
    )*};
}
comparisons! { Eq: ==; Ne: !=; Lt: <; Le: <=; Gt: >; Ge: >=; }

/// `y = 1` where the comparison holds, else 0. With NaN only "not equal" holds. `y` may lie where an input of
/// bytes lies.
///
/// # Safety
/// As for [`unary`].
pub unsafe fn compare<T: Comparable>(kind: CompareKind, n: usize, c: usize, a: Rows<T>, b: Rows<T>, y: Rows<u8>) {
    use std::marker::PhantomData as P;
    // SAFETY: passed on.
    unsafe {
        match kind {
            CompareKind::Eq => zip(Eq(P), n, c, a, b, y),
            CompareKind::Ne => zip(Ne(P), n, c, a, b, y),
            CompareKind::Lt => zip(Lt(P), n, c, a, b, y),
            CompareKind::Le => zip(Le(P), n, c, a, b, y),
            CompareKind::Gt => zip(Gt(P), n, c, a, b, y),
            CompareKind::Ge => zip(Ge(P), n, c, a, b, y),
        }
    }
}

dispatch! {
    /// `y = a` where `cond` is not 0, else `b`.
    ///
    /// # Safety
    /// As for [`unary`].
    pub unsafe fn select[T: Element](
        n: usize, c: usize, cond: Rows<u8>, a: Rows<T>, b: Rows<T>, y: Rows<T>,
    ) = select_body;

    /// Sine with `quarters == 0`, cosine with 1.
    ///
    /// # Safety
    /// As for [`unary`].
    unsafe fn trigonometric(
        quarters: i32, n: usize, c: usize, x: Rows<f32>, y: Rows<f32>,
    ) = trigonometric_body;
}

#[inline(always)]
unsafe fn select_body<L: Level, T: Element>(n: usize, c: usize, cond: Rows<u8>, a: Rows<T>, b: Rows<T>, y: Rows<T>) {
    flatten!(n, c, cond, a, b, y);
    for r in 0..n {
        let row = (
            cond.at(r) as *const u8,
            a.at(r) as *const T,
            b.at(r) as *const T,
            y.at(r),
        );
        // SAFETY: the rows lie within the operands.
        unsafe {
            match [cond.col, a.col, b.col, y.col] {
                [1, 1, 1, 1] => select_row(c, row, [1, 1, 1, 1]),
                [1, 1, 0, 1] => select_row(c, row, [1, 1, 0, 1]),
                [1, 0, 1, 1] => select_row(c, row, [1, 0, 1, 1]),
                cols => select_row(c, row, cols),
            }
        }
    }
}

#[inline(always)]
unsafe fn select_row<T: Element>(c: usize, (cond, a, b, y): (*const u8, *const T, *const T, *mut T), col: [usize; 4]) {
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the rows; the chunks are read before any of them is written.
        unsafe {
            let conds = load(cond.add(j * col[0]), col[0], len, 0);
            let a_lanes = load(a.add(j * col[1]), col[1], len, T::default());
            let b_lanes = load(b.add(j * col[2]), col[2], len, T::default());
            let mut ys = [T::default(); LANES];
            for i in 0..LANES {
                // Selects values, not places: LLVM would gather from the places.
                ys[i] = select_unpredictable(conds[i] != 0, a_lanes[i], b_lanes[i]);
            }
            store(y.add(j * col[3]), col[3], len, &ys);
        }
    });
}

#[inline(always)]
unsafe fn trigonometric_body<L: Level>(quarters: i32, n: usize, c: usize, x: Rows<f32>, y: Rows<f32>) {
    flatten!(n, c, x, y);
    for r in 0..n {
        let (xp, yp) = (x.at(r), y.at(r));
        chunks!(c, |j, len| {
            // SAFETY: elements j..j+len lie within the rows; the chunk is read before any of it is written.
            unsafe {
                let xs = load(xp.add(j * x.col), x.col, len, 0.0);
                let mut ys = [0.0; LANES];
                for i in 0..LANES {
                    ys[i] = math::sin_shifted::<L>(xs[i], quarters);
                }
                // Huge angles are rare, and reducing them takes many more digits of pi.
                for i in 0..len {
                    let x = xs[i];
                    if x.abs() > math::TRIGONOMETRIC_LIMIT {
                        ys[i] = if quarters == 0 { x.sin() } else { x.cos() };
                    }
                }
                store(yp.add(j * y.col), y.col, len, &ys);
            }
        });
    }
}

#[derive(Clone, Copy)]
struct Identity<T>(std::marker::PhantomData<T>);

impl<T: Element> Map for Identity<T> {
    type X = T;
    type Y = T;
    #[inline(always)]
    fn map<L: Level>(self, x: T) -> T {
        x
    }
}

/// `y = x`, for elements of any plain type.
///
/// # Safety
/// As for [`unary`].
pub unsafe fn copy<T: Element>(n: usize, c: usize, x: Rows<T>, y: Rows<T>) {
    // SAFETY: passed on. Rows without gaps on both sides are copied as bytes; `copy` allows for equal
    // pointers.
    unsafe {
        if x.col == 1 && y.col == 1 {
            let whole = x.row == c && y.row == c;
            let (n, c) = if whole { (1, n * c) } else { (n, c) };
            for r in 0..n {
                std::ptr::copy(x.at(r) as *const T, y.at(r), c);
            }
        } else {
            map_plain(Identity(std::marker::PhantomData), n, c, x, y);
        }
    }
}

/// The kernel of [`ops::Unary`].
pub(crate) fn unary_kernel(op: &ops::Unary, _: &Types<'_>) -> Option<Kernel> {
    let kind = op.kind;
    // SAFETY: see `Run`.
    RowKernel::elementwise(move |r| unsafe { unary(kind, r.n, r.c(), r.x(0), r.y(0)) }).into()
}

/// The kernel of [`ops::Binary`].
pub(crate) fn binary_kernel(op: &ops::Binary, types: &Types<'_>) -> Option<Kernel> {
    let kind = op.kind;
    match types.outputs[0].dtype {
        // SAFETY: see `Run`.
        DType::F32 => RowKernel::elementwise(move |r| unsafe {
            binary(kind, r.n, r.c(), r.x(0), r.x(1), r.y(0));
        })
        .into(),
        // SAFETY: see `Run`.
        DType::I32 => RowKernel::elementwise(move |r| unsafe {
            let (a, b, y) = (r.inputs[0].rows(), r.inputs[1].rows(), r.outputs[0].rows());
            binary_i32(kind, r.n, r.c(), a, b, y);
        })
        .into(),
        _ => None,
    }
}

/// The kernel of [`ops::Compare`].
pub(crate) fn compare_kernel(op: &ops::Compare, types: &Types<'_>) -> Option<Kernel> {
    fn of<T: Comparable>(kind: CompareKind) -> Option<Kernel> {
        // SAFETY: see `Run`.
        RowKernel::elementwise(move |r| unsafe {
            let (a, b) = (r.inputs[0].rows::<T>(), r.inputs[1].rows());
            compare(kind, r.n, r.c(), a, b, r.outputs[0].rows());
        })
        .into()
    }
    match types.inputs[0].dtype {
        DType::F32 => of::<f32>(op.kind),
        DType::I32 => of::<i32>(op.kind),
        DType::U32 => of::<u32>(op.kind),
        DType::U8 | DType::Bool => of::<u8>(op.kind),
        DType::F64 | DType::BF16 => None,
    }
}

/// The kernel of [`ops::Select`]. The unsigned integer of the same size stands for any dtype.
pub(crate) fn select_kernel(_: &ops::Select, types: &Types<'_>) -> Option<Kernel> {
    fn of<T: Element>() -> Option<Kernel> {
        // SAFETY: see `Run`.
        RowKernel::elementwise(move |r| unsafe {
            let [a, b] = [1, 2].map(|i| r.inputs[i].rows::<T>());
            select(r.n, r.c(), r.inputs[0].rows(), a, b, r.outputs[0].rows());
        })
        .into()
    }
    match types.outputs[0].dtype.bytes() {
        8 => of::<u64>(),
        4 => of::<u32>(),
        2 => of::<u16>(),
        _ => of::<u8>(),
    }
}
