//! Augmentation of the images that a network is trained on in an evaluation, on the host: one random operation for
//! each image of a batch.

use crate::siamese::Strategy;
use lessen_base::{Error, Result, SplitMix64};
use lessen_data::images::shift;
use lessen_nn::Init;
use std::fmt;
use std::str::FromStr;

/// Pixels by which a crop moves an image at most.
const CROP: usize = 4;

/// Greatest change of height and width, as a share.
const SCALE: f64 = 0.2;

/// Greatest angle of a rotation, in degrees.
const ANGLE: f64 = 45.0;

/// Standard deviation of noise.
const NOISE: f64 = 0.001;

/// How images of a batch are changed before a network sees them, as Zhao, Mopuri and Bilen (2021) evaluate condensed
/// sets. Each image gets one of the operations at random; pixels from beyond its edges are the mean of their channel
/// in the batch, and 0 where a strategy of siamese augmentation says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Augmentation {
    /// Not at all.
    #[default]
    None,
    /// A shift by up to 4 pixels, a change of height and width by up to a fifth (to the nearest pixel), or a rotation
    /// by up to 45 degrees (bilinear; the published code takes cubic splines).
    CropScaleRotate,
    /// A shift by up to 4 pixels, or normal noise of deviation 0.001.
    CropNoise,
    /// All images of a batch by one operation of a strategy, each in its own way.
    Siamese(Strategy),
}

/// Augmentations with words of their own; a strategy has its own words.
const AUGMENTATIONS: [(Augmentation, &str); 3] = [
    (Augmentation::None, "none"),
    (Augmentation::CropScaleRotate, "crop_scale_rotate"),
    (Augmentation::CropNoise, "crop_noise"),
];

impl FromStr for Augmentation {
    type Err = Error;

    fn from_str(word: &str) -> Result<Augmentation> {
        let found = AUGMENTATIONS.iter().find(|(_, own)| *own == word);
        let siamese = || word.parse().ok().map(Augmentation::Siamese);
        found
            .map(|(augmentation, _)| *augmentation)
            .or_else(siamese)
            .ok_or_else(|| {
                let known = AUGMENTATIONS.map(|(_, word)| word).join(", ");
                Error::user(format!(
                    "there is no augmentation `{word}`; choose one of {known}, or {}",
                    Strategy::words()
                ))
            })
    }
}

impl fmt::Display for Augmentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Augmentation::Siamese(strategy) = self {
            return strategy.fmt(f);
        }
        let found = AUGMENTATIONS.iter().find(|(own, _)| own == self);
        f.write_str(found.map_or("", |(_, word)| word))
    }
}

/// A change of one image.
#[derive(Clone, Copy)]
enum Change {
    Crop,
    Scale,
    Rotate,
    Noise,
}

impl Augmentation {
    /// The augmentation with which the published code evaluates: crop, scale and rotation for handwritten digits
    /// (MNIST), crop and noise for networks with batch normalization, and none elsewhere.
    pub fn published(are_digits: bool, has_batch_norm: bool) -> Augmentation {
        match (are_digits, has_batch_norm) {
            (_, true) => Augmentation::CropNoise,
            (true, false) => Augmentation::CropScaleRotate,
            (false, false) => Augmentation::None,
        }
    }

    /// The changes that an image can get.
    fn changes(self) -> &'static [Change] {
        match self {
            Augmentation::None | Augmentation::Siamese(_) => &[],
            Augmentation::CropScaleRotate => &[Change::Crop, Change::Scale, Change::Rotate],
            Augmentation::CropNoise => &[Change::Crop, Change::Noise],
        }
    }

    /// Changes the images of a batch, `[N, H, W, C]` of this `[H, W, C]`.
    pub fn apply(self, pixels: &mut [f32], shape: [usize; 3], random: &mut SplitMix64) {
        if let Augmentation::Siamese(strategy) = self {
            return strategy.apply(pixels, shape, random);
        }
        let changes = self.changes();
        if changes.is_empty() {
            return;
        }
        let size: usize = shape.iter().product();
        let fill = channel_means(pixels, shape[2]);
        for image in pixels.chunks_exact_mut(size) {
            let change = changes[random.below(changes.len() as u64) as usize];
            let view = View {
                pixels: image.to_vec(),
                shape,
                fill: &fill,
            };
            match change {
                Change::Crop => {
                    let mut by = || random.below(2 * CROP as u64 + 1) as isize - CROP as isize;
                    shift(image, shape, [by(), by()], &fill);
                }
                Change::Scale => view.scaled(image, random),
                Change::Rotate => view.rotated(image, ANGLE * (2.0 * random.unit() - 1.0)),
                Change::Noise => {
                    let noise = Init::Normal { std: NOISE }.sequence(random.next_u64(), "noise");
                    image.iter_mut().zip(noise).for_each(|(pixel, noise)| *pixel += noise);
                }
            }
        }
    }
}

/// The mean of each channel over all images.
fn channel_means(pixels: &[f32], channels: usize) -> Vec<f32> {
    let mut sums = vec![0.0f64; channels];
    for pixel in pixels.chunks_exact(channels) {
        sums.iter_mut().zip(pixel).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    let count = (pixels.len() / channels) as f64;
    sums.iter().map(|sum| (sum / count) as f32).collect()
}

/// An image as it was.
struct View<'a> {
    pixels: Vec<f32>,
    shape: [usize; 3],
    /// What lies beyond its edges.
    fill: &'a [f32],
}

impl View<'_> {
    /// The pixel at a place, all channels.
    fn at(&self, row: i64, column: i64) -> &[f32] {
        let [height, width, channels] = self.shape;
        match (usize::try_from(row), usize::try_from(column)) {
            (Ok(row), Ok(column)) if row < height && column < width => {
                &self.pixels[(row * width + column) * channels..][..channels]
            }
            _ => self.fill,
        }
    }

    /// Sets each pixel of `image` to the pixel at another place.
    fn moved(&self, image: &mut [f32], place: impl Fn(i64, i64) -> (i64, i64)) {
        let [_, width, channels] = self.shape;
        for (number, pixel) in image.chunks_exact_mut(channels).enumerate() {
            let (row, column) = place((number / width) as i64, (number % width) as i64);
            pixel.copy_from_slice(self.at(row, column));
        }
    }

    fn scaled(&self, image: &mut [f32], random: &mut SplitMix64) {
        let [height, width, _] = self.shape.map(|extent| extent as i64);
        let mut scaled = |extent: i64| {
            let factor = 1.0 + SCALE * (2.0 * random.unit() - 1.0);
            ((extent as f64 * factor) as i64).max(1)
        };
        let sizes = (scaled(height), scaled(width));
        // The scaled image lies around the same centre; each of its pixels is the nearest one before it.
        let place = |at: i64, extent: i64, scaled: i64| {
            let own = at + (scaled - extent).div_euclid(2);
            if (0..scaled).contains(&own) {
                own * extent / scaled
            } else {
                -1
            }
        };
        self.moved(image, |row, column| {
            (place(row, height, sizes.0), place(column, width, sizes.1))
        });
    }

    fn rotated(&self, image: &mut [f32], degrees: f64) {
        let [height, width, channels] = self.shape;
        let (sin, cos) = degrees.to_radians().sin_cos();
        let centre = [height, width].map(|extent| (extent as f64 - 1.0) / 2.0);
        for (number, pixel) in image.chunks_exact_mut(channels).enumerate() {
            let (down, right) = ((number / width) as f64 - centre[0], (number % width) as f64 - centre[1]);
            let (row, column) = (
                cos * down - sin * right + centre[0],
                sin * down + cos * right + centre[1],
            );
            let (top, left) = (row.floor(), column.floor());
            let corner = |below: i64, beside: i64| self.at(top as i64 + below, left as i64 + beside);
            let corners = [corner(0, 0), corner(0, 1), corner(1, 0), corner(1, 1)];
            let (y, x) = ((row - top) as f32, (column - left) as f32);
            let weights = [(1.0 - y) * (1.0 - x), (1.0 - y) * x, y * (1.0 - x), y * x];
            for (channel, to) in pixel.iter_mut().enumerate() {
                *to = corners
                    .iter()
                    .zip(weights)
                    .map(|(from, weight)| from[channel] * weight)
                    .sum();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 5 x 5 image of distinct pixels.
    fn view(fill: &[f32]) -> View<'_> {
        View {
            pixels: (1..=25).map(|x| x as f32).collect(),
            shape: [5, 5, 1],
            fill,
        }
    }

    #[test]
    fn a_quarter_turn_moves_every_pixel_to_its_place() {
        let mut image = vec![0.0; 25];
        view(&[0.0]).rotated(&mut image, 90.0);
        for (row, column) in (0..5).flat_map(|row| (0..5).map(move |column| (row, column))) {
            // The pixel that was at (4 - column, row).
            let expected = (4 - column) * 5 + row + 1;
            let found = image[row * 5 + column];
            assert!(
                (found - expected as f32).abs() < 1e-4,
                "{row} {column}: {found} {expected}"
            );
        }
    }

    #[test]
    fn a_rotation_by_nothing_changes_nothing_and_edges_are_filled() {
        let mut image = vec![0.0; 25];
        let original = view(&[7.0]);
        original.rotated(&mut image, 0.0);
        assert_eq!(image, original.pixels);
        original.moved(&mut image, |row, column| (row - 1, column + 2));
        assert_eq!(image[..5], [7.0; 5]);
        assert_eq!(image[5..10], [3.0, 4.0, 5.0, 7.0, 7.0]);
    }

    #[test]
    fn changes_come_of_the_seed_and_every_image_gets_one() {
        let shape = [6, 6, 2];
        let pixels: Vec<f32> = (0..72 * 40).map(|x| ((x * 37) % 101) as f32).collect();
        for (augmentation, _) in AUGMENTATIONS {
            let changed = |seed| {
                let mut changed = pixels.clone();
                augmentation.apply(&mut changed, shape, &mut SplitMix64::new(seed));
                changed
            };
            let (one, other) = (changed(1), changed(2));
            assert_eq!(one, changed(1), "{augmentation}");
            assert!(one.iter().all(|pixel| pixel.is_finite()), "{augmentation}");
            let unchanged = one.chunks(72).zip(pixels.chunks(72)).filter(|(a, b)| a == b).count();
            match augmentation {
                Augmentation::None => assert_eq!(unchanged, 40),
                _ => assert!(one != other && unchanged < 10, "{augmentation}: {unchanged}"),
            }
            assert_eq!(augmentation.to_string().parse(), Ok(augmentation));
        }
    }

    #[test]
    fn fills_are_means_of_channels() {
        assert_eq!(channel_means(&[1.0, 10.0, 3.0, 30.0], 2), [2.0, 20.0]);
    }
}
