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
}

/// The seed of a run and the number of a network, which is 0 of a training.
pub(super) type Key = (u64, u64);

/// The measured numbers of a point, each with the seed of its run and the number of its network.
pub(super) type BySeed = Vec<(Key, f64)>;

/// The ratio of the means of two points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub value: f64,
    /// Its standard deviation; none where neither point has two numbers.
    pub deviation: Option<f64>,
    /// Whether the deviation is that of the ratios of runs with the same seed. Otherwise it follows from the deviations
    /// of both means, as if these were independent.
    pub paired: bool,
}

impl Ratio {
    /// None where a mean is missing or zero, or the signs differ, so that a ratio says nothing.
    pub(super) fn of<K: Copy + PartialEq>(above: &[(K, f64)], below: &[(K, f64)]) -> Option<Ratio> {
        let numbers = |all: &[(K, f64)]| all.iter().map(|(_, number)| *number).collect::<Vec<f64>>();
        let (a, b) = (Summary::of(&numbers(above))?, Summary::of(&numbers(below))?);
        let value = Some(a.mean / b.mean).filter(|ratio| ratio.is_finite() && *ratio > 0.0)?;
        let partner = |seed: K| below.iter().find(|(own, _)| *own == seed);
        let ratios = above.iter().map(|(seed, number)| Some(number / partner(*seed)?.1));
        let ratios: Option<Vec<f64>> = ratios.collect();
        let ratios =
            ratios.filter(|ratios| ratios.len() == below.len() && ratios.iter().all(|ratio| ratio.is_finite()));
        let (deviation, paired) = match ratios.and_then(|ratios| Summary::of(&ratios)) {
            Some(own) => ((own.count > 1).then_some(own.deviation), true),
            None => {
                let relative = (a.deviation / a.mean).hypot(b.deviation / b.mean);
                ((a.count.max(b.count) > 1).then_some(value * relative), false)
            }
        };
        Some(Ratio {
            value,
            deviation,
            paired,
        })
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
    fn a_ratio_is_that_of_the_means_and_its_spread_is_paired_by_seed() {
        // Ratios seed by seed: 0.5, 0.5 and 2; of the means: 1.
        let (a, b) = ([(1, 1.0), (2, 2.0), (3, 6.0)], [(3, 3.0), (1, 2.0), (2, 4.0)]);
        let found = Ratio::of(&a, &b).unwrap();
        assert!((found.value - 1.0).abs() < 1e-12 && found.paired);
        assert!((found.deviation.unwrap() - 0.75f64.sqrt()).abs() < 1e-12, "{found:?}");
        // Equal ratios have no spread, however far the runs lie apart.
        let half = a.map(|(seed, number)| (seed, number / 2.0));
        assert_eq!(
            Ratio::of(&half, &a),
            Some(Ratio {
                value: 0.5,
                deviation: Some(0.0),
                paired: true
            })
        );
        // Other seeds: relative deviations are added as squares.
        let other = b.map(|(seed, number)| (seed + 1, number));
        let found = Ratio::of(&a, &other).unwrap();
        let (first, second) = (7f64.sqrt() / 3.0, 1.0 / 3.0);
        assert!(
            !found.paired && (found.deviation.unwrap() - first.hypot(second)).abs() < 1e-12,
            "{found:?}"
        );
        // A run more on one side: its mean is shown, so nothing is paired.
        assert!(!Ratio::of(&a, &b[..2]).unwrap().paired);
        let single = Ratio::of(&a[..1], &other[2..]).unwrap();
        assert_eq!((single.deviation, single.paired), (None, false));
        assert_eq!(Ratio::of(&[(1, -1.0)], &[(1, 1.0)]), None);
        assert_eq!(Ratio::of(&[(1, 1.0)], &[(1, 0.0)]), None);
        assert_eq!(Ratio::of(&[], &a), None);
        let negative = Ratio::of(&[(1, -1.0)], &[(1, -2.0)]).unwrap();
        assert_eq!((negative.value, negative.deviation, negative.paired), (0.5, None, true));
    }
}
