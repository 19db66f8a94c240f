//! Convolution by minimal filtering: its errors beside those of plain loops in `f32`, and its numbers in shapes that
//! tiles, panels, blocks and slices do not divide.

use lessen_graph::ops::{Conv2d, Conv2dOptions};

use super::images::{Case, case, check, convolution, run};
use super::support::Random;

fn padded(padding: [usize; 4]) -> Conv2dOptions {
    Conv2dOptions {
        padding,
        ..Conv2dOptions::default()
    }
}

/// The three operations on images of this number, height and width.
fn cases(random: &mut Random, images: [usize; 3], [inputs, outputs]: [usize; 2], padding: [usize; 4]) -> Vec<Case> {
    let [number, height, width] = images;
    let (x, weight) = ([number, height, width, inputs], [outputs, inputs, 3, 3]);
    convolution(random, &x, &weight, padded(padding))
}

#[test]
fn errors_are_at_most_four_times_those_of_plain_loops() {
    for (channels, images, seeds) in [(32, 4, 10), (64, 3, 4), (128, 3, 2)] {
        for seed in 0..seeds {
            let mut random = Random::new(seed);
            for case in cases(&mut random, [images, 8, 8], [channels; 2], [1; 4]) {
                assert_eq!(case.times, 4.0);
                check(&format!("{channels} channels, seed {seed}"), &case, false);
            }
        }
    }
}

#[test]
fn images_that_tiles_do_not_divide() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let size = [9 + random.below(9), 9 + random.below(25)];
        let images = [3 + random.below(4), size[0], size[1]];
        // Paddings as large as a window leave pixels without products, and move windows of the derivative into images.
        let padding = std::array::from_fn(|_| random.below(5));
        let channels = [random.pick(&[32, 33, 47, 65]), random.pick(&[32, 39, 48, 70])];
        for case in cases(&mut random, images, channels, padding) {
            check(&format!("seed {seed}"), &case, false);
        }
    }
}

#[test]
fn weights_in_slices_and_tiles_in_blocks_and_chunks() {
    for (images, channels) in [
        // Two slices of the weight, and of the sums for its gradient.
        ([1, 12, 12], [1000, 66]),
        // Blocks and chunks of tiles, the last ones smaller.
        ([3, 49, 53], [32, 32]),
    ] {
        for case in cases(&mut Random::new(1), images, channels, [1; 4]) {
            check(&format!("{images:?}"), &case, false);
        }
    }
}

#[test]
fn numbers_that_are_not_finite_stay_in_the_tiles_that_read_them() {
    let (height, width, channels) = (12, 16, 32);
    let mut random = Random::new(1);
    let x = random.array(&[1, height, width, channels], 1.0);
    let weight = random.array(&[channels, channels, 3, 3], 1.0);
    let options = padded([1; 4]);
    for special in [f64::NAN, f64::INFINITY] {
        for (row, column) in [(0, 0), (5, 9), (7, 8)] {
            let mut x = x.clone();
            x.data[(row * width + column) * channels + 7] = special;
            let case = case(Conv2d { options }, &[&x, &weight], x.data.len(), 1.0, |_| ());
            for (i, y) in run(&case).into_iter().enumerate() {
                let (pixel, from) = (i / channels, [row, column]);
                let at = [pixel / width, pixel % width];
                let is_read = [0, 1].iter().all(|&axis| at[axis].abs_diff(from[axis]) <= 1);
                // The tile's windows read a row or a column before and after it.
                let is_near = [0, 1]
                    .iter()
                    .all(|&axis| (at[axis] / 4 * 4..at[axis] / 4 * 4 + 6).contains(&(from[axis] + 1)));
                assert!(!is_read || !y.is_finite(), "{special} at {from:?} is not in {at:?}");
                assert!(is_near || y.is_finite(), "{special} at {from:?} is in {at:?}");
            }
        }
    }
}
