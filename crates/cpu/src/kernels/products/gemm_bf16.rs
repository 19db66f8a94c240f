//! Products of `bf16` where no kernel reads it: factors are widened block by block, which changes no number, and
//! multiplied as `f32`.

use lessen_graph::DType;

use super::gemm::gemm;
use crate::kernels::elementwise::cast::{Bf16, cast};
use crate::kernels::rows::Rows;

/// The most rows, `k` and columns of a block.
const BLOCK: (usize, usize, usize) = (256, 256, 512);

/// Bytes of the widened blocks of a product of `m` rows and `n` columns.
pub(crate) fn widened_bytes(m: usize, n: usize) -> usize {
    let (rows, depth, columns) = BLOCK;
    (m.min(rows) + n.min(columns)) * depth * size_of::<f32>()
}

/// `c = a b` or `c += a b` for `a` of `m x k`, `b` of `k x n` and `c` of `m x n` elements; each matrix has its strides,
/// in elements, from row to row and from column to column.
///
/// # Safety
/// The elements are readable, the elements of `c` are writable and nobody else's; `scratch` has [`widened_bytes`].
pub(crate) unsafe fn gemm_bf16(
    (m, k, n): (usize, usize, usize),
    a: Rows<Bf16>,
    b: Rows<Bf16>,
    c: Rows<f32>,
    accumulate: bool,
    scratch: *mut f32,
) {
    let (rows, depth, columns) = BLOCK;
    let wide_b = Rows::dense(scratch.wrapping_add(m.min(rows) * depth), n.min(columns));
    for j in (0..n).step_by(columns) {
        let n = columns.min(n - j);
        for p in (0..k).step_by(depth) {
            let k = depth.min(k - p);
            let wide_a = Rows::dense(scratch, k);
            // SAFETY: the blocks lie within the factors, the product and the scratch.
            unsafe {
                widen((k, n), b.element(p, j), b, wide_b);
                for i in (0..m).step_by(rows) {
                    let m = rows.min(m - i);
                    widen((m, k), a.element(i, p), a, wide_a);
                    gemm(
                        m,
                        k,
                        n,
                        (wide_a.ptr, wide_a.row as isize, 1),
                        (wide_b.ptr, wide_b.row as isize, 1),
                        (c.element(i, j), c.row as isize, c.col as isize),
                        accumulate || p > 0,
                    );
                }
            }
        }
    }
}

/// Widens a block that begins at `first` in `x`.
///
/// # Safety
/// The elements exist.
unsafe fn widen((n, c): (usize, usize), first: *mut Bf16, x: Rows<Bf16>, y: Rows<f32>) {
    let x = Rows { ptr: first, ..x };
    // SAFETY: passed on.
    unsafe { cast(DType::BF16, DType::F32, n, c, x.cast(), y.cast()) }
}
