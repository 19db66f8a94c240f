//! Reductions, gather and scatter-add against plain loops.

use super::support::*;
use lessen_cpu::kernels::Rows;
use lessen_cpu::kernels::movement::gather;
use lessen_cpu::kernels::sums::reduce;
use lessen_graph::ops::ReduceKind;

#[test]
fn reductions_in_all_strides() {
    at_all_levels(|_| {
        let mut random = Random::new(1);
        for (n, c) in SIZES.into_iter().chain([(3, 5000), (70, 129)]) {
            for lie in READABLE {
                let mut x = random_block(&mut random, n, c, lie, 1.0);
                let v = x.values();
                let rows = |i: usize| v[i * c..(i + 1) * c].iter().copied();
                let what = format!("{n}x{c} {lie:?}");
                for kind in ReduceKind::ALL {
                    let mut y = vec![9.0; n];
                    // SAFETY: the block and the result have these sizes.
                    unsafe { reduce::reduce_rows(kind, n, c, x.rows(), y.as_mut_ptr()) };
                    if kind == ReduceKind::Sum {
                        let e: Vec<f64> = (0..n).map(|i| rows(i).map(f64::from).sum()).collect();
                        let p: Vec<f32> = (0..n).map(|i| rows(i).sum()).collect();
                        assert_close(&format!("sum {what}"), &y, &p, &e, (c as f64).sqrt());
                    } else {
                        let max = kind == ReduceKind::Max;
                        let pick = |a: f32, b: f32| if max { a.max(b) } else { a.min(b) };
                        let none = if max { f32::NEG_INFINITY } else { f32::INFINITY };
                        let e: Vec<f32> = (0..n).map(|i| rows(i).fold(none, pick)).collect();
                        assert_eq!(y, e, "{kind:?} {what}");
                    }
                }
                let mut acc = vec![2.0; c];
                // SAFETY: as above.
                let all = unsafe {
                    reduce::sum_cols(n, c, x.rows(), acc.as_mut_ptr());
                    reduce::sum_all(n, c, x.rows())
                };
                let column = |j: usize| (0..n).map(move |r| (r, j));
                let e: Vec<f64> = (0..c)
                    .map(|j| 2.0 + column(j).map(|(r, j)| f64::from(x.get(r, j))).sum::<f64>())
                    .collect();
                let p: Vec<f32> = (0..c)
                    .map(|j| 2.0 + column(j).map(|(r, j)| x.get(r, j)).sum::<f32>())
                    .collect();
                assert_close(&format!("columns {what}"), &acc, &p, &e, (n as f64).sqrt() + 2.0);
                let e: f64 = v.iter().map(|&x| f64::from(x)).sum();
                // One sum has an error by chance; its bound goes by the number of terms.
                let size = v.iter().map(|x| f64::from(x.abs())).sum::<f64>() / 8.0;
                assert_close(&format!("all {what}"), &[all], &[v.iter().sum()], &[e], size.max(1.0));
            }
        }
    });
}

#[test]
fn extremes_see_nan_and_infinity() {
    at_all_levels(|_| {
        for at in [0, 5, 64, 99] {
            for (value, kind) in [
                (f32::NAN, ReduceKind::Max),
                (f32::NAN, ReduceKind::Min),
                (f32::NAN, ReduceKind::Sum),
            ] {
                let mut x = vec![1.0; 100];
                x[at] = value;
                let mut y = 0.0;
                // SAFETY: one row.
                unsafe { reduce::reduce_rows(kind, 1, 100, Rows::dense(x.as_mut_ptr(), 100), &mut y) };
                assert!(y.is_nan(), "{kind:?} at {at}");
            }
            let mut x = vec![f32::NEG_INFINITY; 100];
            let mut y = 0.0;
            // SAFETY: one row.
            unsafe { reduce::reduce_rows(ReduceKind::Max, 1, 100, Rows::dense(x.as_mut_ptr(), 100), &mut y) };
            assert_eq!(y, f32::NEG_INFINITY);
            x[at] = f32::INFINITY;
            // SAFETY: one row.
            unsafe { reduce::reduce_rows(ReduceKind::Max, 1, 100, Rows::dense(x.as_mut_ptr(), 100), &mut y) };
            assert_eq!(y, f32::INFINITY);
        }
    });
}

#[test]
fn gather_and_scatter_add() {
    at_all_levels(|_| {
        let mut random = Random::new(2);
        for c in [1, 7, 64, 130] {
            for lie in WRITABLE {
                let (rows, n) = (5, 12);
                let table = random.vec(rows * c, 1.0);
                let ids: Vec<i32> = (0..n).map(|_| random.below(rows) as i32).collect();
                let mut y = random_block(&mut random, n, c, lie, 1.0);
                let before = y.clone();
                // SAFETY: the ids are rows of the table, and the block has this size.
                unsafe { gather::gather(n, c, table.as_ptr(), ids.as_ptr(), y.rows()) };
                for r in 0..n {
                    assert!(
                        (0..c).all(|j| y.get(r, j) == table[ids[r] as usize * c + j]),
                        "{c} {lie:?}"
                    );
                }
                assert!(y.same_gaps(&before));
                let mut updates = random_block(&mut random, n, c, lie, 1.0);
                let mut expected = vec![0.0; rows * c];
                for r in 0..n {
                    for j in 0..c {
                        expected[ids[r] as usize * c + j] += updates.get(r, j);
                    }
                }
                let mut out = table.clone();
                let ranges = |part: std::ops::Range<usize>| [(part.clone(), 0..c / 3), (part, c / 3..c)];
                for (part, columns) in [ranges(0..2), ranges(2..rows)].concat() {
                    // SAFETY: as above; the ranges of rows and of columns make up all of them.
                    unsafe {
                        let y = Rows::dense(out.as_mut_ptr().add(part.start * c), c);
                        gather::scatter_add(n, ids.as_ptr(), updates.rows(), y, part, columns);
                    }
                }
                assert_eq!(out, expected, "{c} {lie:?}");
            }
        }
    });
}
