//! Matrix products, by the `faer` crate.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

/// `c = a b`, or `c += a b` when accumulating, on this thread, for `a` of `m x k`, `b` of `k x n` and `c` of
/// `m x n` elements. Element `(i, j)` of a matrix lies `i * row + j * col` elements from its pointer;
/// transposes are strides. The sum over `k` has a fixed order that depends on the shape and the machine's
/// kind alone. No memory is allocated but `faer`'s packing buffer, once for each thread.
///
/// # Safety
/// The matrices' elements are readable, the elements of `c` are writable and distinct; `c` overlaps neither `a` nor
/// `b`.
#[inline]
pub unsafe fn gemm(
    m: usize,
    k: usize,
    n: usize,
    a: (*const f32, isize, isize),
    b: (*const f32, isize, isize),
    c: (*mut f32, isize, isize),
    accumulate: bool,
) {
    // SAFETY: passed on.
    unsafe { gemm_scaled(1.0, m, k, n, a, b, c, accumulate) }
}

/// [`gemm`] of `alpha a` and `b`.
///
/// # Safety
/// As for [`gemm`].
#[inline]
pub unsafe fn gemm_scaled(
    alpha: f32,
    m: usize,
    k: usize,
    n: usize,
    (a, a_row, a_col): (*const f32, isize, isize),
    (b, b_row, b_col): (*const f32, isize, isize),
    (c, c_row, c_col): (*mut f32, isize, isize),
    accumulate: bool,
) {
    let accum = if accumulate { Accum::Add } else { Accum::Replace };
    // SAFETY: the caller's promise is what `from_raw_parts` asks for.
    unsafe {
        let a = MatRef::from_raw_parts(a, m, k, a_row, a_col);
        let b = MatRef::from_raw_parts(b, k, n, b_row, b_col);
        let c = MatMut::from_raw_parts_mut(c, m, n, c_row, c_col);
        matmul(c, accum, a, b, alpha, Par::Seq);
    }
}
