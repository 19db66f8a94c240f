//! The range whose levels lose the least information.

/// Levels of a range without their sign.
const LEVELS: usize = 128;

/// The number of bins of magnitudes, from the first one on, whose range has the least Kullback-Leibler divergence
/// `sum p ln(p / q)` of what 128 levels make of them (Migacz 2017): `p` are the numbers of these bins, the last one
/// with all beyond it, and `q` those that the levels know, spread over the bins of a level that have any.
pub(super) fn best_width(counts: &[f64]) -> usize {
    let mut below = vec![0.0];
    for count in counts {
        below.push(below.last().copied().unwrap_or(0.0) + count);
    }
    let mut best = (f64::INFINITY, counts.len());
    for width in LEVELS.min(counts.len())..=counts.len() {
        let beyond = below[counts.len()] - below[width];
        let found = divergence(&counts[..width], beyond);
        if found <= best.0 {
            best = (found, width);
        }
    }
    best.1
}

/// The divergence for these bins, with numbers beyond them.
fn divergence(counts: &[f64], beyond: f64) -> f64 {
    /// What levels know of a bin that has only numbers from beyond, relative to all.
    const LEAST: f64 = 1e-9;
    let known: f64 = counts.iter().sum();
    let all = known + beyond;
    if known <= 0.0 {
        return f64::INFINITY;
    }
    let mut sum = 0.0;
    for level in 0..LEVELS {
        let [first, last] = [level, level + 1].map(|level| level * counts.len() / LEVELS);
        let own = &counts[first..last];
        let filled = own.iter().filter(|count| **count > 0.0).count();
        let each = own.iter().sum::<f64>() / filled.max(1) as f64;
        for (place, count) in own.iter().enumerate() {
            let is_last = first + place + 1 == counts.len();
            let p = (count + if is_last { beyond } else { 0.0 }) / all;
            let q = if *count > 0.0 { each / known } else { LEAST };
            if p > 0.0 {
                sum += p * (p / q).ln();
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_of_as_many_bins_as_levels() {
        let counts: Vec<f64> = (0..128).map(|i| f64::from(i + 1)).collect();
        assert!(divergence(&counts, 0.0).abs() < 1e-12);
        // Of 8256 numbers 128 are in the last bin, which takes those beyond.
        let [known, all, last] = [8256.0, 8356.0, 228.0];
        let expected = 8128.0 / all * f64::ln(known / all) + last / all * f64::ln(last / all / (128.0 / known));
        assert!((divergence(&counts, 100.0) - expected).abs() < 1e-12);
        assert_eq!(best_width(&counts), 128);
    }

    #[test]
    fn levels_of_two_bins_know_their_mean() {
        // Bins of 3 and 1 in turns: each level has two of them, and knows 2 of each.
        let counts: Vec<f64> = (0..256).map(|i| if i % 2 == 0 { 3.0 } else { 1.0 }).collect();
        let expected = 0.75 * 1.5f64.ln() + 0.25 * 0.5f64.ln();
        assert!((divergence(&counts, 0.0) - expected).abs() < 1e-12);
    }

    #[test]
    fn a_few_bins_are_taken_whole() {
        assert_eq!(best_width(&[1.0, 2.0, 5.0]), 3);
    }
}
