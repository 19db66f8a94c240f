//! Products cut along columns: a column's bits do not depend on where the others are cut off.

use lessen_cpu::kernels::products::gemm::gemm;
use lessen_cpu::kernels::products::matmul::{column_cut, column_tile};

use super::support::*;

/// The product of rows and a shared matrix, cut before these columns.
fn product(sizes: (usize, usize, usize), a: &[f32], b: &[f32], transposed: bool, cuts: &[usize]) -> Vec<u32> {
    let (m, k, n) = sizes;
    let (row, col) = if transposed { (1, k) } else { (n, 1) };
    let mut c = vec![0f32; m * n];
    let ends = cuts[1..].iter().copied().chain([n]);
    for (&j, end) in cuts.iter().zip(ends) {
        // SAFETY: the factors and the product have these extents.
        unsafe {
            gemm(
                m,
                k,
                end - j,
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
        (100, 333),
        (768, 65),
        (384, 129),
        (256, 1001),
        (129, 2000),
    ];
    for m in [1, 2, 3, 8, 17, 64, 100, 128] {
        for (k, n) in shapes {
            let (a, b) = (random.vec(m * k, 1.0), random.vec(k * n, 1.0));
            let tiles: Vec<usize> = (0..n).step_by(column_tile(n)).collect();
            let width = column_cut(m, k, n);
            let cuts: Vec<usize> = (0..(n / width).max(1)).map(|i| i * width).collect();
            for transposed in [false, true] {
                let whole = product((m, k, n), &a, &b, transposed, &tiles);
                let cut = product((m, k, n), &a, &b, transposed, &cuts);
                assert!(whole == cut, "{m} rows, {k} x {n}, transposed: {transposed}");
            }
        }
    }
}
