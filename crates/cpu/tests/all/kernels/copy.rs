//! Copies between strides, and matrix products, against plain loops.

use super::support::*;
use lessen_cpu::kernels::movement::copy::CopyPlan;
use lessen_cpu::kernels::products::gemm::gemm;

/// All indices of a shape, in order.
fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let total: usize = shape.iter().product();
    let index = |mut i: usize| {
        let mut index = vec![0; shape.len()];
        for a in (0..shape.len()).rev() {
            index[a] = i % shape[a];
            i /= shape[a];
        }
        index
    };
    (0..total).map(index).collect()
}

fn dense(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).map(|a| shape[a + 1..].iter().product()).collect()
}

fn offset(index: &[usize], strides: &[usize]) -> usize {
    index.iter().zip(strides).map(|(i, s)| i * s).sum()
}

/// Copies in pieces of rows and compares.
fn check<T: Copy + PartialEq + std::fmt::Debug>(
    shape: &[usize],
    from: &[usize],
    to: &[usize],
    value: impl Fn(usize) -> T,
    other: T,
) {
    let end = |strides: &[usize]| indices(shape).iter().map(|i| offset(i, strides) + 1).max().unwrap_or(0);
    let x: Vec<T> = (0..end(from)).map(value).collect();
    let mut y = vec![other; end(to)];
    let mut expected = y.clone();
    for i in indices(shape) {
        expected[offset(&i, to)] = x[offset(&i, from)];
    }
    let plan = CopyPlan::new(shape, from, to);
    assert_eq!(plan.rows() * plan.columns(), shape.iter().product::<usize>());
    let (rows, mut row) = (plan.rows(), 0);
    while row < rows {
        let next = (row + rows / 3 + 1).min(rows);
        // SAFETY: both sides have all elements of the shape.
        unsafe { plan.copy(size_of::<T>(), x.as_ptr().cast(), y.as_mut_ptr().cast(), row..next) };
        row = next;
    }
    assert_eq!(y, expected, "{shape:?} {from:?} {to:?}");
}

#[test]
fn all_permutations_of_four_axes() {
    let shape = [3, 5, 2, 19];
    let strides = dense(&shape);
    for p in indices(&[4, 4, 4, 4]) {
        if (0..4).all(|a| p.contains(&a)) {
            let (s, t): (Vec<_>, Vec<_>) = p.iter().map(|&a| (shape[a], strides[a])).unzip();
            check(&s, &t, &dense(&s), |i| i as u32, 0);
            check(&s, &dense(&s), &t, |i| i as u64, 7);
        }
    }
}

#[test]
fn slices_broadcasts_scalars_and_nothing() {
    check(&[4, 6], &[10, 1], &[6, 1], |i| i as u8, 0);
    check(&[4, 6], &[6, 1], &[9, 1], |i| i as u16, 9);
    check(&[4, 6], &[0, 1], &[6, 1], |i| i as u32, 0);
    check(&[4, 6], &[1, 0], &[6, 1], |i| i as u32, 0);
    check(&[2, 3, 4], &[0, 0, 0], &[12, 4, 1], |_| 5u32, 0);
    check(&[4, 6], &[12, 2], &[6, 1], |i| i as u32, 0);
    check(&[], &[], &[], |i| i as u32 + 3, 0);
    check(&[1, 1], &[7, 3], &[1, 1], |i| i as u32 + 3, 0);
    check(&[0, 3], &[3, 1], &[3, 1], |i| i as u32, 0);
    check(&[3, 0], &[1, 1], &[1, 1], |i| i as u32, 0);
    check(&[100, 70], &[1, 100], &[70, 1], |i| i as u32, 0);
    let many = [2; 17];
    let zigzag: Vec<usize> = dense(&many).into_iter().rev().collect();
    check(&many, &dense(&many), &dense(&many), |i| i as u32, 0);
    check(&many, &zigzag, &dense(&many), |i| i as u32, 0);
}

#[test]
fn products_in_all_layouts_and_sizes() {
    let mut random = Random::new(1);
    let sizes = [
        (1, 1, 1),
        (3, 5, 7),
        (16, 16, 16),
        (1, 40, 30),
        (40, 30, 1),
        (33, 1, 17),
        (65, 70, 67),
        (0, 3, 4),
        (3, 0, 4),
    ];
    for (m, k, n) in sizes {
        for layout in 0..8 {
            for accumulate in [false, true] {
                let (a, b, mut c) = (random.vec(m * k, 1.0), random.vec(k * n, 1.0), random.vec(m * n, 1.0));
                let strides = |flip: bool, rows: usize, columns: usize| {
                    if flip {
                        (1, rows as isize)
                    } else {
                        (columns as isize, 1)
                    }
                };
                let (ar, ac) = strides(layout & 1 != 0, m, k);
                let (br, bc) = strides(layout & 2 != 0, k, n);
                let (cr, cc) = strides(layout & 4 != 0, m, n);
                let at = |i: usize, j: usize, r: isize, c: isize| i * r as usize + j * c as usize;
                let mut expected: Vec<f64> = c.iter().map(|&c| if accumulate { c.into() } else { 0.0 }).collect();
                for i in 0..m {
                    for j in 0..n {
                        for l in 0..k {
                            expected[at(i, j, cr, cc)] +=
                                f64::from(a[at(i, l, ar, ac)]) * f64::from(b[at(l, j, br, bc)]);
                        }
                    }
                }
                if !accumulate {
                    c.fill(f32::NAN);
                }
                // SAFETY: the matrices have these sizes.
                unsafe {
                    let (a, b, c) = ((a.as_ptr(), ar, ac), (b.as_ptr(), br, bc), (c.as_mut_ptr(), cr, cc));
                    gemm(m, k, n, a, b, c, accumulate);
                }
                assert!(
                    worst_error(&c, &expected, 1.0 + k as f64) < 1e-6,
                    "{m}x{k}x{n} layout {layout}"
                );
            }
        }
    }
}
