//! Herding (Welling 2009), as iCaRL chooses examples by it (Rebuffi et al. 2017).

use crate::rows::Rows;

/// The numbers of `count` rows of features `[N, width]`, one after another: each makes the mean of all rows chosen so
/// far as near to the mean of all rows as possible. Of equally good rows the first is chosen; no row is chosen twice.
///
/// Features are taken as they are, where iCaRL scales each row to the length 1.
pub fn herding(features: &[f32], width: usize, count: usize) -> Vec<usize> {
    let rows = Rows::new(features, width);
    let mean = rows.mean();
    let squares: Vec<f64> = (0..rows.len())
        .map(|row| rows.product(row, rows.row_f64(row)))
        .collect();
    let mut is_chosen = vec![false; rows.len()];
    let mut sum = vec![0.0; width];
    let mut chosen = Vec::new();
    for number in 1..=count.min(rows.len()) {
        // |mean - (sum + x) / number|^2 is least where |x|^2 - 2 x (number mean - sum) is.
        let rest = mean.iter().zip(&sum).map(|(mean, sum)| number as f64 * mean - sum);
        let rest: Vec<f64> = rest.collect();
        let free = (0..rows.len()).filter(|row| !is_chosen[*row]);
        let scored = free.map(|row| (squares[row] - 2.0 * rows.product(row, rest.iter().copied()), row));
        let best = scored.min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, row)) = best {
            is_chosen[row] = true;
            sum.iter_mut().zip(rows.row_f64(row)).for_each(|(sum, x)| *sum += x);
            chosen.push(row);
        }
    }
    chosen
}
