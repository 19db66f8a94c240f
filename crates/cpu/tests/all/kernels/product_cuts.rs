//! Products cut along columns: a column's bits do not depend on where the others are cut off.

use lessen_cpu::kernels::gemm::gemm;

use super::support::*;

#[test]
fn bits_of_a_product_do_not_depend_on_how_its_columns_are_cut() {
    let mut random = Random::new(1);
    for m in [1, 2, 3, 5, 8, 16, 17, 33, 64, 100, 127, 128] {
        for (k, n) in [
            (1, 70),
            (3, 130),
            (64, 192),
            (100, 333),
            (384, 768),
            (768, 768),
            (1000, 64),
            (768, 256),
            (3072, 768),
            (513, 500),
        ] {
            let (a, b) = (random.vec(m * k, 1.0), random.vec(k * n, 1.0));
            for transposed in [false, true] {
                let (row, col) = if transposed { (1, k) } else { (n, 1) };
                let product = |tile: usize| {
                    let mut c = vec![0f32; m * n];
                    for j in (0..n).step_by(tile) {
                        let width = tile.min(n - j);
                        // SAFETY: the factors and the product have these extents.
                        unsafe {
                            gemm(
                                m,
                                k,
                                width,
                                (a.as_ptr(), k as isize, 1),
                                (b.as_ptr().add(j * col), row as isize, col as isize),
                                (c.as_mut_ptr().add(j), n as isize, 1),
                                false,
                            );
                        }
                    }
                    c
                };
                let whole = product(n);
                for tile in [16, 32, 48, 64, 128, 192, 256, 320] {
                    if tile >= n {
                        continue;
                    }
                    let cut = product(tile);
                    let bad = whole
                        .iter()
                        .zip(&cut)
                        .filter(|(a, b)| a.to_bits() != b.to_bits())
                        .count();
                    if bad > 0 {
                        println!("m {m} k {k} n {n} t {transposed} tile {tile}: {bad} differ");
                    }
                }
            }
        }
    }
}
