//! Batches of a search: images with shares of their classes.

use crate::settings::Settings;
use lessen_base::{Result, SplitMix64};
use lessen_data::images::{ImageSource, Mixing, mirror, shift};

/// Rows and columns by which an image is shifted at most.
const SHIFT: usize = 4;

/// How batches are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Batches {
    /// Whether images are shifted and mirrored.
    pub augment: bool,
    /// Probability that is spread over all classes.
    pub smoothing: f64,
    /// How images are mixed.
    pub mixing: Mixing,
}

impl Batches {
    /// Batches that change no image.
    pub const PLAIN: Batches = Batches {
        augment: false,
        smoothing: 0.0,
        mixing: Mixing {
            mixup: None,
            cutmix: None,
        },
    };

    /// Batches that weights are trained on.
    pub fn training(settings: &Settings) -> Batches {
        Batches {
            augment: settings.augment,
            smoothing: settings.label_smoothing,
            mixing: Mixing {
                mixup: Some(settings.mixup).filter(|mixup| *mixup > 0.0),
                cutmix: None,
            },
        }
    }

    /// The images with these numbers, `[N, H, W, C]`, and the shares of their classes, `[N, classes]`.
    pub fn of(
        &self,
        source: &dyn ImageSource,
        chosen: &[usize],
        random: &mut SplitMix64,
    ) -> Result<(Vec<f32>, Vec<f32>)> {
        let (shape, classes) = (source.shape(), source.classes());
        let mut images = source.gather(chosen)?;
        if self.augment {
            for image in images.chunks_exact_mut(source.size()) {
                shift_and_mirror(image, shape, random);
            }
        }
        let mut targets = vec![(self.smoothing / classes as f64) as f32; chosen.len() * classes];
        for (row, image) in chosen.iter().enumerate() {
            targets[row * classes + source.labels()[*image] as usize] += (1.0 - self.smoothing) as f32;
        }
        self.mixing.mix((&mut images, shape), (&mut targets, classes), random);
        Ok((images, targets))
    }
}

/// Shifts an image by up to 4 rows and columns, with zeros where nothing comes from, and mirrors every second one.
fn shift_and_mirror(image: &mut [f32], shape: [usize; 3], random: &mut SplitMix64) {
    let mut offset = || SHIFT as isize - random.below(2 * SHIFT as u64 + 1) as isize;
    let by = [offset(), offset()];
    shift(image, shape, by, &vec![0.0; shape[2]]);
    if random.below(2) == 1 {
        mirror(image, shape);
    }
}

/// The place of the greatest number; of equal ones the first.
pub(crate) fn largest(numbers: &[f32]) -> usize {
    (1..numbers.len()).fold(
        0,
        |best, place| if numbers[place] > numbers[best] { place } else { best },
    )
}
