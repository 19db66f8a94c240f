//! Means and deviations of the runs of a point, which differ in their seeds.

/// Mean and spread of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    /// How many numbers.
    pub count: usize,
    pub mean: f64,
    /// The standard deviation with `count - 1`; 0 of a single number.
    pub deviation: f64,
}

impl Summary {
    /// None of nothing.
    pub(super) fn of(numbers: &[f64]) -> Option<Summary> {
        let count = numbers.len();
        if count == 0 {
            return None;
        }
        let mean = numbers.iter().sum::<f64>() / count as f64;
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        let deviation = match count {
            1 => 0.0,
            _ => (squares / (count - 1) as f64).sqrt(),
        };
        Some(Summary { count, mean, deviation })
    }

    /// The pooled deviation of two groups: the root of the mean of their variances, weighted by `count - 1`; none where
    /// neither has two numbers.
    pub(super) fn pooled(self, other: Summary) -> Option<f64> {
        let freedom = (self.count + other.count)
            .checked_sub(2)
            .filter(|freedom| *freedom > 0)?;
        let squares = |group: Summary| (group.count - 1) as f64 * group.deviation.powi(2);
        Some(((squares(self) + squares(other)) / freedom as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let found = Summary::of(&[1.0, 2.0, 3.0, 6.0]).unwrap();
        // Squares of -2, -1, 0 and 3 over 3.
        assert!((found.mean - 3.0).abs() < 1e-12 && (found.deviation - (14.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(
            Summary::of(&[2.5]).unwrap(),
            Summary {
                count: 1,
                mean: 2.5,
                deviation: 0.0
            }
        );
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn groups_are_pooled_by_their_degrees_of_freedom() {
        let (a, b) = (
            Summary::of(&[1.0, 3.0]).unwrap(),
            Summary::of(&[0.0, 3.0, 6.0]).unwrap(),
        );
        // Variances 2 with 1 degree and 9 with 2 degrees.
        assert!((a.pooled(b).unwrap() - (20.0f64 / 3.0).sqrt()).abs() < 1e-12);
        let single = Summary::of(&[1.0]).unwrap();
        assert_eq!(single.pooled(single), None);
        assert_eq!(single.pooled(a), Some(a.deviation));
    }
}
