//! The loops of elementwise kernels: a function of one or two elements, applied to blocks of rows.

use super::rows::{Element, Rows, flatten};
use super::widths::{self, widths};
use crate::simd::{Baseline, LANES, Level, chunks, dispatch, load, store};

/// A function of one element, written without branches so that loops over it vectorize.
pub(crate) trait Map: Copy {
    /// The input element type.
    type X: Element;
    /// The output element type.
    type Y: Element;
    /// The function.
    fn map<L: Level>(self, x: Self::X) -> Self::Y;
}

/// A function of two elements, written without branches so that loops over it vectorize.
pub(crate) trait Zip: Copy {
    /// The element type of both inputs.
    type X: Element;
    /// The output element type.
    type Y: Element;
    /// The function.
    fn zip<L: Level>(self, a: Self::X, b: Self::X) -> Self::Y;
}

/// Declares functions of one element, without or with numbers of their own: `Elu { alpha: f32 }: f32 => f32, |x| ..`.
macro_rules! maps {
    ($($name:ident $({ $($field:ident: $ty:ty),* })?: $x:ty => $y:ty, |$v:ident| $body:expr;)*) => {$(
        $crate::kernels::map::function! { $name $({ $($field: $ty),* })? }
        impl Map for $name {
            type X = $x;
            type Y = $y;
            #[inline(always)]
            fn map<L: Level>(self, $v: $x) -> $y {
                let $name { $($($field),*)? } = self;
                $body
            }
        }
    )*};
}
pub(super) use maps;

/// Declares functions of two elements.
macro_rules! zips {
    ($($name:ident: $x:ty => $y:ty, |$a:ident, $b:ident| $body:expr;)*) => {$(
        $crate::kernels::map::function! { $name }
        impl Zip for $name {
            type X = $x;
            type Y = $y;
            #[inline(always)]
            fn zip<L: Level>(self, $a: $x, $b: $x) -> $y { $body }
        }
    )*};
}
pub(super) use zips;

/// Declares the type of a function.
macro_rules! function {
    ($name:ident) => {
        #[derive(Clone, Copy)]
        struct $name;
    };
    ($name:ident { $($field:ident: $ty:ty),* }) => {
        #[derive(Clone, Copy)]
        struct $name {
            $($field: $ty),*
        }
    };
}
pub(super) use function;

dispatch! {
    /// `y[r, j] = f(x[r, j])`.
    ///
    /// # Safety
    /// The operands cover `n` rows of `c` elements; `y` may lie exactly where `x` lies if their elements have
    /// the same size, and overlaps nothing otherwise.
    pub(crate) unsafe fn map[F: Map](f: F, n: usize, c: usize, x: Rows<F::X>, y: Rows<F::Y>) = map_body;

    /// `y[r, j] = f(a[r, j], b[r, j])`.
    ///
    /// # Safety
    /// As for [`map`], for both operands.
    pub(crate) unsafe fn zip[F: Zip](
        f: F, n: usize, c: usize, a: Rows<F::X>, b: Rows<F::X>, y: Rows<F::Y>,
    ) = zip_body;
}

/// [`map`] compiled for the lowest CPU level alone, for functions that are bound by memory bandwidth at every level.
///
/// # Safety
/// As for [`map`].
pub(crate) unsafe fn map_plain<F: Map>(f: F, n: usize, c: usize, x: Rows<F::X>, y: Rows<F::Y>) {
    // SAFETY: passed on.
    unsafe { map_body::<Baseline, F>(f, n, c, x, y) }
}

#[inline(always)]
unsafe fn map_body<L: Level, F: Map>(f: F, n: usize, c: usize, x: Rows<F::X>, y: Rows<F::Y>) {
    flatten!(n, c, x, y);
    for r in 0..n {
        // SAFETY: the rows lie within the operands.
        unsafe {
            if x.col == 1 && y.col == 1 {
                map_row::<L, F>(f, c, x.at(r), 1, y.at(r), 1);
            } else {
                map_row::<L, F>(f, c, x.at(r), x.col, y.at(r), y.col);
            }
        }
    }
}

/// One row; inlined with constant strides where they are 1.
#[inline(always)]
unsafe fn map_row<L: Level, F: Map>(f: F, c: usize, x: *const F::X, x_col: usize, y: *mut F::Y, y_col: usize) {
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the row; the chunk is read before any of it is written.
        unsafe {
            let xs = load(x.add(j * x_col), x_col, len, F::X::default());
            let mut ys = [F::Y::default(); LANES];
            for i in 0..LANES {
                ys[i] = f.map::<L>(xs[i]);
            }
            store(y.add(j * y_col), y_col, len, &ys);
        }
    });
}

#[inline(always)]
unsafe fn zip_body<L: Level, F: Zip>(f: F, n: usize, c: usize, a: Rows<F::X>, b: Rows<F::X>, y: Rows<F::Y>) {
    flatten!(n, c, a, b, y);
    for r in 0..n {
        let (ap, bp, yp) = (a.at(r), b.at(r), y.at(r));
        // SAFETY: the rows lie within the operands.
        unsafe {
            match (a.col, b.col, y.col) {
                (1, 1, 1) => zip_dense_row::<L, F>(f, c, ap, bp, yp),
                (1, 0, 1) => zip_row::<L, F>(f, c, (ap, 1), (bp, 0), (yp, 1)),
                (0, 1, 1) => zip_row::<L, F>(f, c, (ap, 0), (bp, 1), (yp, 1)),
                _ => zip_row::<L, F>(f, c, (ap, a.col), (bp, b.col), (yp, y.col)),
            }
        }
    }
}

/// One row whose elements follow each other: all of it in vectors, for rows of few columns, too.
#[inline(always)]
unsafe fn zip_dense_row<L: Level, F: Zip>(f: F, c: usize, a: *const F::X, b: *const F::X, y: *mut F::Y) {
    widths!(c, |j, W| {
        // SAFETY: elements j..j+W lie within the rows; they are read before any of them is written.
        unsafe {
            let (a_lanes, b_lanes): ([F::X; W], [F::X; W]) = (widths::load(a.add(j)), widths::load(b.add(j)));
            let mut ys = [F::Y::default(); W];
            for i in 0..W {
                ys[i] = f.zip::<L>(a_lanes[i], b_lanes[i]);
            }
            widths::store(y.add(j), ys);
        }
    });
}

/// One row; inlined with constant strides where they are 0 or 1.
#[inline(always)]
unsafe fn zip_row<L: Level, F: Zip>(
    f: F,
    c: usize,
    (a, a_col): (*const F::X, usize),
    (b, b_col): (*const F::X, usize),
    (y, y_col): (*mut F::Y, usize),
) {
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the rows; the chunks are read before any of them is written.
        // An element that a broadcast operand repeats is not written: such an operand does not overlap the
        // output.
        unsafe {
            let a_lanes = load(a.add(j * a_col), a_col, len, F::X::default());
            let b_lanes = load(b.add(j * b_col), b_col, len, F::X::default());
            let mut ys = [F::Y::default(); LANES];
            for i in 0..LANES {
                ys[i] = f.zip::<L>(a_lanes[i], b_lanes[i]);
            }
            store(y.add(j * y_col), y_col, len, &ys);
        }
    });
}
