//! Histograms, and the quantiles of lengths and numbers.

use std::collections::BTreeMap;

use serde::Serialize;

/// Bins of a histogram.
pub const BINS: usize = 20;

/// Numbers of values between bounds of equal distance.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Histogram {
    /// The lower bound of the first bin and the upper one of the last.
    pub bounds: [f64; 2],
    /// Values of each bin, [`BINS`] of them; the last one has its upper bound, too.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// The histogram of values with the number of times that each is there.
    pub(super) fn of(bounds: [f64; 2], values: impl Iterator<Item = (f64, u64)>) -> Histogram {
        let [least, greatest] = bounds;
        let mut counts = vec![0; BINS];
        for (value, count) in values {
            let place = (value - least) / (greatest - least) * BINS as f64;
            // Equal bounds have one value alone, in the first bin.
            counts[(place as usize).min(BINS - 1)] += count;
        }
        Histogram { bounds, counts }
    }
}

/// Lengths of texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lengths {
    /// The shortest.
    pub min: usize,
    /// Half of the texts are at most so long.
    pub median: usize,
    /// 95 of 100 texts are at most so long.
    pub p95: usize,
    /// 99 of 100 texts are at most so long.
    pub p99: usize,
    /// The longest.
    pub max: usize,
    /// The number of texts of each length.
    pub histogram: Histogram,
}

/// Lengths while they are counted.
#[derive(Clone, Debug, Default)]
pub(super) struct LengthCounts(BTreeMap<usize, u64>);

impl LengthCounts {
    pub(super) fn add(&mut self, length: usize) {
        *self.0.entry(length).or_default() += 1;
    }

    pub(super) fn lengths(&self) -> Lengths {
        let total: u64 = self.0.values().sum();
        let quantile = |share: f64| {
            let wanted = ((total as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let found = self.0.iter().find(|(_, count)| {
                seen += **count;
                seen >= wanted
            });
            found.map_or(0, |(length, _)| *length)
        };
        let ends = [self.0.keys().next(), self.0.keys().next_back()].map(|length| length.copied().unwrap_or(0));
        Lengths {
            min: ends[0],
            median: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: ends[1],
            histogram: Histogram::of(
                ends.map(|length| length as f64),
                self.0.iter().map(|(length, count)| (*length as f64, *count)),
            ),
        }
    }
}

/// Numbers to be learnt.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NumberLook {
    /// The least.
    pub min: f64,
    /// Half of them are at most so great.
    pub median: f64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub std: f64,
    /// The greatest.
    pub max: f64,
    /// How many there are of each size.
    pub histogram: Histogram,
}

impl NumberLook {
    /// That of some numbers; none where there are none.
    pub(super) fn of(mut numbers: Vec<f32>) -> Option<NumberLook> {
        numbers.sort_by(f32::total_cmp);
        let (first, last) = (f64::from(*numbers.first()?), f64::from(*numbers.last()?));
        let each = || numbers.iter().map(|number| f64::from(*number));
        let mean = each().sum::<f64>() / numbers.len() as f64;
        let squares: f64 = each().map(|number| (number - mean) * (number - mean)).sum();
        Some(NumberLook {
            min: first,
            median: f64::from(numbers[(numbers.len() - 1) / 2]),
            mean,
            std: (squares / numbers.len() as f64).sqrt(),
            max: last,
            histogram: Histogram::of([first, last], each().map(|number| (number, 1))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_bins_are_those_of_the_values() {
        let mut counts = LengthCounts::default();
        (1..=200).for_each(|length| counts.add(length));
        let found = counts.lengths();
        assert_eq!(
            (found.min, found.median, found.p95, found.p99, found.max),
            (1, 100, 190, 198, 200)
        );
        assert_eq!(found.histogram.bounds, [1.0, 200.0]);
        assert_eq!(found.histogram.counts.iter().sum::<u64>(), 200);
        assert!(found.histogram.counts.iter().all(|count| (9..=11).contains(count)));
        assert_eq!(LengthCounts::default().lengths().max, 0);
    }

    #[test]
    fn numbers_have_their_mean_and_equal_ones_one_bin() {
        let found = NumberLook::of(vec![4.0, 1.0, 1.0]).unwrap();
        assert_eq!((found.min, found.median, found.mean, found.max), (1.0, 1.0, 2.0, 4.0));
        assert!((found.std - 2f64.sqrt()).abs() < 1e-9);
        assert_eq!((found.histogram.counts[0], found.histogram.counts[19]), (2, 1));
        let equal = NumberLook::of(vec![2.0; 5]).unwrap();
        assert_eq!((equal.histogram.counts[0], equal.std), (5, 0.0));
        assert_eq!(NumberLook::of(Vec::new()), None);
    }
}
