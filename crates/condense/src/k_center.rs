//! The greedy choice of centers (Sener and Savarese 2018).

use crate::rows::Rows;

/// The numbers of `count` rows of features `[N, width]`, one after another: first the row that is nearest to the mean
/// of all, then each time the row that is farthest from all chosen ones. Of equally good rows the first is chosen; no
/// row is chosen twice.
pub fn k_center(features: &[f32], width: usize, count: usize) -> Vec<usize> {
    let rows = Rows::new(features, width);
    let mean = rows.mean();
    let from_mean = (0..rows.len()).map(|row| (rows.distance(row, mean.iter().copied()), row));
    let Some((_, first)) = from_mean.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|_| count > 0) else {
        return Vec::new();
    };
    let mut chosen = vec![first];
    // The distance of each row from the nearest chosen one; that of a chosen row is below all others.
    let mut nearest = vec![f64::INFINITY; rows.len()];
    while chosen.len() < count.min(rows.len()) {
        let last = chosen[chosen.len() - 1];
        for (row, nearest) in nearest.iter_mut().enumerate() {
            *nearest = nearest.min(rows.distance(row, rows.row_f64(last)));
        }
        nearest[last] = -1.0;
        let mut farthest = 0;
        for (row, distance) in nearest.iter().enumerate() {
            if *distance > nearest[farthest] {
                farthest = row;
            }
        }
        chosen.push(farthest);
    }
    chosen
}
