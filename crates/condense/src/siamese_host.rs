//! Siamese augmentation on the host, for images that are no values of a graph.

use crate::siamese::{Change, Strategy};
use lessen_base::SplitMix64;

impl Strategy {
    /// Changes the images of a batch, `[N, H, W, C]` of this `[H, W, C]`, by one operation, each in its own way.
    pub fn apply(&self, pixels: &mut [f32], shape: [usize; 3], random: &mut SplitMix64) {
        let size: usize = shape.iter().product();
        let changes = self.draw(shape, pixels.len() / size, random);
        for (image, change) in pixels.chunks_exact_mut(size).zip(changes) {
            change.apply(image, shape);
        }
    }
}

impl Change {
    /// Changes an image of this `[H, W, C]`.
    pub fn apply(&self, image: &mut [f32], shape: [usize; 3]) {
        if let Change::Color { .. } = self {
            return self.recolour(image, shape[2]);
        }
        let (before, [_, width, channels]) = (image.to_vec(), shape);
        for (number, pixel) in image.chunks_exact_mut(channels).enumerate() {
            let place = [number / width, number % width];
            let (corners, keeps) = (self.corners(shape, place), self.keeps(place));
            for (channel, to) in pixel.iter_mut().enumerate() {
                let parts = corners
                    .iter()
                    .map(|(from, weight)| f64::from(before[from * channels + channel]) * weight);
                *to = if keeps { parts.sum::<f64>() as f32 } else { 0.0 };
            }
        }
    }

    fn recolour(&self, image: &mut [f32], channels: usize) {
        let [brightness, saturation, contrast] = self.color();
        let mut changed: Vec<f64> = image.iter().map(|x| f64::from(*x) + brightness).collect();
        for pixel in changed.chunks_exact_mut(channels) {
            away_from_mean(pixel, saturation);
        }
        away_from_mean(&mut changed, contrast);
        image.iter_mut().zip(changed).for_each(|(to, x)| *to = x as f32);
    }
}

/// Moves numbers away from their mean, by this share of their distance.
fn away_from_mean(numbers: &mut [f64], share: f64) {
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    numbers.iter_mut().for_each(|x| *x += share * (*x - mean));
}
