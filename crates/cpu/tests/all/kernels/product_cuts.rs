//! Products cut along columns: a column's bits do not depend on where the others are cut off.

use lessen_cpu::kernels::gemm::gemm;
use lessen_cpu::kernels::matmul::{column_cut, column_tile};

use super::support::*;

/// The product of rows and a shared matrix, cut into this many columns at a time.
fn product(sizes: (usize, usize, usize), a: &[f32], b: &[f32], transposed: bool, width: usize) -> Vec<u32> {
    let (m, k, n) = sizes;
    let (row, col) = if transposed { (1, k) } else { (n, 1) };
    let mut c = vec![0f32; m * n];
    for j in (0..n).step_by(width) {
        // SAFETY: the factors and the product have these extents.
        unsafe {
            gemm(
                m,
                k,
                width.min(n - j),
                (a.as_ptr(), k as isize, 1),
                (b.as_ptr().add(j * col), row as isize, col as isize),
                (c.as_mut_ptr().add(j), n as isize, 1),
                false,
            );
        }
    }
    c.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn few_rows_cut_along_columns_have_the_bits_of_whole_tiles() {
    let mut random = Random::new(1);
    let shapes = [
        (3, 130),
        (64, 192),
        (100, 300),
        (384, 768),
        (768, 3072),
        (1000, 64),
        (3072, 768),
        (129, 2000),
    ];
    for m in [1, 2, 3, 8, 17, 64, 100, 128] {
        for (k, n) in shapes {
            let (a, b) = (random.vec(m * k, 1.0), random.vec(k * n, 1.0));
            for transposed in [false, true] {
                let whole = product((m, k, n), &a, &b, transposed, column_tile(n));
                let cut = product((m, k, n), &a, &b, transposed, column_cut(m, k, n));
                assert!(whole == cut, "{m} rows, {k} x {n}, transposed: {transposed}");
            }
        }
    }
}
