//! The distribution of magnitudes of numbers.

use super::entropy::best_width;
use super::method::Method;
use lessen_graph::ops::Histogram;

/// Bins of magnitudes from 2^-14 to 2^14.
pub(super) const BINS: Histogram = Histogram {
    least: LEAST,
    most: 14,
    parts: PARTS,
};

const LEAST: i64 = -14;

const PARTS: usize = 512;

/// The share of magnitudes that a percentile keeps.
const SHARE: f64 = 0.9999;

/// Magnitudes of numbers.
#[derive(Clone, Debug, Default)]
pub struct Magnitudes {
    greatest: f32,
    /// Numbers in each bin from that of 0 on.
    counts: Vec<f64>,
}

impl Magnitudes {
    /// Adds numbers with this greatest magnitude, and these counts in [`BINS`].
    pub(super) fn add(&mut self, greatest: f32, counts: &[f32]) {
        let own = &counts[counts.len() / 2..];
        self.greatest = self.greatest.max(greatest);
        self.counts.resize(own.len(), 0.0);
        for (sum, count) in self.counts.iter_mut().zip(own) {
            *sum += f64::from(*count);
        }
    }

    /// Adds numbers, all of which are finite.
    pub fn add_all(&mut self, numbers: &[f32]) {
        let own = BINS.bins().div_ceil(2);
        let mut counts = vec![0.0; BINS.bins() - own];
        counts.resize(BINS.bins(), 0.0f32);
        let (mut greatest, first) = (0f32, BINS.bins() - own);
        for x in numbers {
            let magnitude = x.abs();
            greatest = greatest.max(magnitude);
            let bin = match magnitude {
                0.0 => 0,
                x => {
                    let octave = f64::from(x).log2().floor() as i64;
                    let within = f64::from(x) / 2f64.powi(octave as i32) - 1.0;
                    let part = ((within * PARTS as f64) as usize).min(PARTS - 1);
                    let octaves = usize::try_from(octave - LEAST).ok();
                    octaves.map_or(1, |octaves| (2 + octaves * PARTS + part).min(own - 1))
                }
            };
            counts[first + bin] += 1.0;
        }
        self.add(greatest, &counts);
    }

    /// The range of numbers, from its negative to itself.
    pub fn clip(&self, method: Method) -> f32 {
        let greatest = f64::from(self.greatest);
        let clip = match method {
            Method::MinMax => greatest,
            Method::Percentile => self.percentile(),
            Method::Entropy => self.entropy(),
        };
        (clip as f32).min(self.greatest)
    }

    /// Lower and upper edge of a bin, of which the last ends at the greatest magnitude.
    fn edges(&self, bin: usize) -> [f64; 2] {
        let octave = |part: usize| {
            let base = 2f64.powi((LEAST + (part / PARTS) as i64) as i32);
            base * (1.0 + (part % PARTS) as f64 / PARTS as f64)
        };
        let greatest = f64::from(self.greatest);
        let edges = match bin {
            0 => [0.0; 2],
            1 => [0.0, octave(0)],
            bin if bin + 1 == self.counts.len() => [octave(bin - 2), greatest],
            bin => [octave(bin - 2), octave(bin - 1)],
        };
        edges.map(|edge| edge.min(greatest))
    }

    fn percentile(&self) -> f64 {
        let all: f64 = self.counts.iter().sum();
        let wanted = SHARE * all;
        let mut below = 0.0;
        for (bin, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            if below + count >= wanted {
                let [low, high] = self.edges(bin);
                return low + (high - low) * ((wanted - below) / count).clamp(0.0, 1.0);
            }
            below += count;
        }
        f64::from(self.greatest)
    }

    /// The range of least divergence, of those that are a whole number of bins of one width: a part of the octave in
    /// which the greatest magnitude lies.
    fn entropy(&self) -> f64 {
        let greatest = f64::from(self.greatest);
        if greatest < 2f64.powi(LEAST as i32) {
            return greatest;
        }
        let width = 2f64.powi(greatest.log2().floor() as i32) / PARTS as f64;
        let count = ((greatest / width).ceil() as usize).clamp(1, 2 * PARTS);
        let mut even = vec![0.0; count];
        for (bin, own) in self.counts.iter().enumerate() {
            let [low, high] = self.edges(bin);
            let place = (0.5 * (low + high) / width) as usize;
            even[place.min(count - 1)] += own;
        }
        // Numbers that are 0 are 0 in every range.
        even[0] -= self.counts.first().copied().unwrap_or(0.0);
        best_width(&even) as f64 * width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: impl Iterator<Item = f64>) -> Magnitudes {
        let mut all = Magnitudes::default();
        let edges = BINS.edges();
        let mut counts = vec![0.0; BINS.bins()];
        let mut greatest: f64 = 0.0;
        for x in numbers {
            greatest = greatest.max(x);
            let bin = match x {
                0.0 => counts.len() / 2,
                _ => edges.partition_point(|edge| *edge <= x) - 1,
            };
            counts[bin] += 1.0;
        }
        all.add(greatest as f32, &counts);
        all
    }

    #[test]
    fn ranges_of_even_numbers_are_nearly_all_of_them() {
        let all = of((0..100_000).map(|i| f64::from(i) / 50_000.0));
        assert_eq!(all.clip(Method::MinMax), (99_999.0f64 / 50_000.0) as f32);
        assert!((all.clip(Method::Percentile) - 1.9998).abs() < 1e-4);
        assert!(all.clip(Method::Entropy) > 1.9);
    }

    #[test]
    fn outliers_are_clipped_but_by_the_greatest_magnitude() {
        // Magnitudes of a normal distribution by its quantiles, and one number far away.
        let normal = |i: i32| {
            let u = (f64::from(i) + 0.5) / 100_000.0;
            (-2.0 * (1.0 - u).ln()).sqrt()
        };
        let all = of((0..100_000).map(normal).chain([40.0]));
        assert_eq!(all.clip(Method::MinMax), 40.0);
        let percentile = all.clip(Method::Percentile);
        assert!((4.1..4.5).contains(&percentile), "{percentile}");
        let entropy = all.clip(Method::Entropy);
        assert!((2.0..12.0).contains(&entropy), "{entropy}");
    }

    #[test]
    fn numbers_beyond_the_bins_and_zeros_have_ranges() {
        for method in [Method::MinMax, Method::Percentile, Method::Entropy] {
            assert_eq!(of([0.0; 5].into_iter()).clip(method), 0.0);
            let tiny = of([1e-9, 2e-9].into_iter()).clip(method);
            assert!(tiny > 0.0 && tiny <= 2e-9, "{method}: {tiny}");
            let huge = of([1e6, 2e9].into_iter()).clip(method);
            assert!(huge > 0.0 && huge <= 2e9, "{method}: {huge}");
        }
    }
}
