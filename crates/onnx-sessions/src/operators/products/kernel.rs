//! Products of matrices that lie in memory row by row.

use lessen_base::Result;

use super::sizes::check_work;
use lessen_onnx::host::Number;

/// Columns of a block of a product.
const COLUMNS: usize = 8;

/// Rows of a block of a product.
const ROWS: usize = 4;

/// Adds the product of `a` (`m` by `k`) and `b` (`k` by `n`) to `c` (`m` by `n`).
///
/// Blocks of `ROWS` by `COLUMNS` sums stay in registers while `k` runs; the columns of `b` of a block lie side by side
/// in `panel`.
pub(crate) fn add_product<T: Number>(a: &[T], b: &[T], c: &mut [T], [m, k, n]: [usize; 3]) {
    if m == 0 || k == 0 || n == 0 {
        return;
    }
    if m == 1 {
        // One row is the sum of the rows of `b`, which are read once.
        let mut sums = vec![T::ZERO; n];
        for (factor, row) in a.iter().zip(b.chunks_exact(n)) {
            sums.iter_mut()
                .zip(row)
                .for_each(|(sum, x)| *sum = sum.plus(factor.times(*x)));
        }
        c.iter_mut().zip(&sums).for_each(|(out, sum)| *out = out.plus(*sum));
        return;
    }
    let mut panel = vec![[T::ZERO; COLUMNS]; k];
    for left in (0..n).step_by(COLUMNS) {
        let width = COLUMNS.min(n - left);
        for (row, columns) in b.chunks_exact(n).zip(&mut panel) {
            columns[..width].copy_from_slice(&row[left..left + width]);
        }
        for (rows, out) in a.chunks(ROWS * k).zip(c.chunks_mut(ROWS * n)) {
            let sums = if rows.len() == ROWS * k {
                let (first, rest) = rows.split_at(k);
                let (second, rest) = rest.split_at(k);
                let (third, fourth) = rest.split_at(k);
                block([first, second, third, fourth], &panel)
            } else {
                let mut sums = [[T::ZERO; COLUMNS]; ROWS];
                for (row, sums) in rows.chunks_exact(k).zip(&mut sums) {
                    [*sums] = block([row], &panel);
                }
                sums
            };
            for (row, sums) in out.chunks_exact_mut(n).zip(&sums) {
                for (out, sum) in row[left..left + width].iter_mut().zip(sums) {
                    *out = out.plus(*sum);
                }
            }
        }
    }
}

/// Products of some rows and the columns of a panel.
#[inline]
fn block<T: Number, const N: usize>(rows: [&[T]; N], panel: &[[T; COLUMNS]]) -> [[T; COLUMNS]; N] {
    let mut sums = [[T::ZERO; COLUMNS]; N];
    for (p, columns) in panel.iter().enumerate() {
        for (row, sums) in rows.iter().zip(&mut sums) {
            let factor = row[p];
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = sum.plus(factor.times(*column));
            }
        }
    }
    sums
}

/// The product of `a` (`m` by `k`) and `b` (`k` by `n`).
///
/// # Errors
/// Too much work.
pub(super) fn product<T: Number>(a: &[T], b: &[T], [m, k, n]: [usize; 3]) -> Result<Vec<T>> {
    check_work(&[m, k, n])?;
    let mut c = vec![T::ZERO; m * n];
    add_product(a, b, &mut c, [m, k, n]);
    Ok(c)
}

/// A matrix of `rows` by `columns`, transposed.
pub(crate) fn transposed<T: Copy>(a: &[T], rows: usize, columns: usize) -> Vec<T> {
    let mut all = Vec::with_capacity(a.len());
    if a.is_empty() {
        return all;
    }
    for column in 0..columns {
        all.extend((0..rows).map(|row| a[row * columns + column]));
    }
    all
}
