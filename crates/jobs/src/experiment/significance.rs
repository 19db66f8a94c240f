//! When a difference counts: Student's t-test over the seeds, and Holm's division of the level among a page's claims.

use super::summary::Summary;
use std::f64::consts::FRAC_2_PI;

/// The probability, at most, that any claim of a page gets a verdict where nothing differs.
pub(super) const LEVEL: f64 = 0.05;

/// The two-sided p of the t-test that numbers have the mean 0, with one degree of freedom less than numbers; none of
/// fewer than two.
pub(super) fn chance(numbers: &[f64]) -> Option<f64> {
    let found = Summary::of(numbers).filter(|found| found.count > 1)?;
    let error = found.deviation / (found.count as f64).sqrt();
    Some(match found.mean == 0.0 {
        true => 1.0,
        false => two_sided(found.mean.abs() / error, found.count - 1),
    })
}

/// The probability that Student's t with this many degrees of freedom is at least `t` from 0 (Abramowitz and Stegun
/// 1964, 26.7.3 and 26.7.4).
fn two_sided(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let is_odd = freedom % 2;
    let (mut term, mut sum) = (1.0, 0.0);
    for k in (is_odd..freedom - is_odd).step_by(2) {
        sum += term;
        term *= cos * cos * (k + 1) as f64 / (k + 2) as f64;
    }
    let within = match is_odd {
        1 => FRAC_2_PI * (angle + sin * cos * sum),
        _ => sin * sum,
    };
    (1.0 - within).clamp(0.0, 1.0)
}

/// Which claims of a page are decided (Holm 1979): the smallest p may be the level over the number of claims, the next
/// one the level over one claim less, until the first that is larger. Claims without p do not count.
pub(super) fn decided(chances: &[Option<f64>]) -> Vec<bool> {
    let mut order: Vec<(f64, usize)> = (0..chances.len()).filter_map(|at| Some((chances[at]?, at))).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let count = order.len();
    let is_small = |(rank, own): &(usize, (f64, usize))| own.0 <= LEVEL / (count - rank) as f64;
    let mut decided = vec![false; chances.len()];
    for (_, (_, at)) in order.into_iter().enumerate().take_while(is_small) {
        decided[at] = true;
    }
    decided
}

/// A p for people.
pub(super) fn show(chance: f64) -> String {
    match chance {
        chance if chance < 1e-4 => "p < 0.0001".to_string(),
        chance if chance < 0.01 => format!("p {chance:.4}"),
        chance => format!("p {chance:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_is_that_of_published_tables() {
        for (freedom, t) in [
            (1, 12.7062),
            (2, 4.30265),
            (3, 3.18245),
            (4, 2.77645),
            (9, 2.26216),
            (30, 2.04227),
        ] {
            assert!((two_sided(t, freedom) - 0.05).abs() < 1e-5, "{freedom}");
        }
        assert!((two_sided(4.60409, 4) - 0.01).abs() < 1e-6);
        assert_eq!((two_sided(0.0, 5), two_sided(f64::INFINITY, 2)), (1.0, 0.0));
    }

    #[test]
    fn a_single_number_and_equal_ones_are_told_apart() {
        assert_eq!((chance(&[]), chance(&[1.0])), (None, None));
        assert_eq!((chance(&[0.0; 3]), chance(&[1.0, -1.0])), (Some(1.0), Some(1.0)));
        assert_eq!(chance(&[0.5; 3]), Some(0.0));
        // A mean of 2 and a deviation of 1 over three numbers: t is 2 times the root of 3, with 2 degrees.
        assert!((chance(&[1.0, 2.0, 3.0]).unwrap() - 0.0741799).abs() < 1e-6);
    }

    #[test]
    fn the_level_is_divided_from_the_smallest_p_on() {
        let chances = [Some(0.03), None, Some(0.016), Some(0.9), Some(0.012)];
        // 0.012 is at most a quarter of the level, 0.016 at most a third; 0.03 is larger than a half.
        assert_eq!(decided(&chances), [false, false, true, false, true]);
        // A small p after one that is too large is not asked.
        assert_eq!(decided(&[Some(0.03), Some(0.04)]), [false, false]);
        assert_eq!((decided(&[Some(0.05)]), decided(&[None])), (vec![true], vec![false]));
    }
}
