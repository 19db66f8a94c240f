//! The histogram against a search of the edges.

use super::support::*;
use lessen_cpu::kernels::sums::histogram::histogram;
use lessen_graph::ops::Histogram;

/// The counts of the bins, by comparison with the edges.
fn counts(bins: Histogram, values: &[f32]) -> Vec<f32> {
    let (edges, zero) = (bins.edges(), bins.bins() / 2);
    let mut counts = vec![0.0; bins.bins()];
    for x in values.iter().map(|&x| f64::from(x)).filter(|x| !x.is_nan()) {
        let bin = match x {
            0.0 => zero,
            _ if x > 0.0 => (zero + 1..bins.bins()).rfind(|&i| edges[i] <= x).unwrap(),
            _ => (0..zero).find(|&i| x <= edges[i + 1]).unwrap(),
        };
        counts[bin] += 1.0;
    }
    counts
}

#[test]
fn every_element_is_in_its_bin() {
    let fine = Histogram {
        least: -3,
        most: 2,
        parts: 1024,
    };
    let widest = Histogram {
        least: -126,
        most: 127,
        parts: 1,
    };
    at_all_levels(|_| {
        let mut random = Random::new(3);
        for bins in [Histogram::STANDARD, fine, widest] {
            for (n, c) in SIZES.into_iter().chain([(3, 500), (70, 129)]) {
                for lie in READABLE {
                    let x = Block::new(n, c, lie, || {
                        let size = 2f32.powf(60.0 * random.unit_f32());
                        if random.below(2) == 0 { size } else { -size }
                    });
                    let mut x = x;
                    let mut found = vec![0.0; bins.bins()];
                    // SAFETY: the block has this size, and there is an element for each bin.
                    unsafe { histogram(bins, n, c, x.rows(), found.as_mut_ptr()) };
                    assert_eq!(found, counts(bins, &x.values()), "{n}x{c} {lie:?} {bins:?}");
                }
            }
        }
    });
}

#[test]
fn edges_and_special_numbers_are_in_their_bins() {
    at_all_levels(|_| {
        let bins = Histogram::STANDARD;
        let mut values = vec![
            0.0,
            -0.0,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MIN_POSITIVE,
            1e-45,
            -1e-45,
        ];
        for edge in bins.edges().into_iter().filter(|edge| edge.is_finite() && *edge != 0.0) {
            let edge = edge as f32;
            values.extend([edge, edge.next_up(), edge.next_down()]);
        }
        let mut found = vec![0.0; bins.bins()];
        // SAFETY: one row, and an element for each bin.
        unsafe {
            let row = lessen_cpu::kernels::Rows::dense(values.as_mut_ptr(), values.len());
            histogram(bins, 1, values.len(), row, found.as_mut_ptr());
        }
        assert_eq!(found, counts(bins, &values));
        assert_eq!(
            found.iter().sum::<f32>(),
            values.len() as f32 - 1.0,
            "NaN alone is left out"
        );
    });
}
