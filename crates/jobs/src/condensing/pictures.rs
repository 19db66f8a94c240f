//! Condensed images as they are seen: a grid with a row for each class, as a PNG file.

use lessen_condense::{ImageSource, LabelledImages};
use lessen_data::images::{Image, Preprocessing, png};

/// Pixels of the longer side of an image, about: smaller ones are enlarged.
const SIDE: usize = 64;

/// Most pixels of a row of images, where these are enlarged.
const WIDEST: usize = 4096;

/// Pixels between images.
const GAP: usize = 2;

/// The grey between images.
const BETWEEN: u8 = 128;

/// The places of images in a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grid {
    rows: usize,
    columns: usize,
    /// Rows and columns of pixels that a pixel becomes.
    scale: usize,
    /// Height, width and channels of an image.
    shape: [usize; 3],
}

impl Grid {
    fn new(classes: usize, per_class: usize, shape: [usize; 3]) -> Grid {
        let longest = shape[0].max(shape[1]).max(1);
        let fits = WIDEST / (per_class.max(1) * longest);
        Grid {
            rows: classes,
            columns: per_class,
            scale: (SIDE.div_ceil(longest)).min(fits).max(1),
            shape,
        }
    }

    /// Height, width and channels of the whole picture.
    fn size(&self) -> [usize; 3] {
        let side = |count: usize, side: usize| count * (side * self.scale + GAP) + GAP;
        let [height, width, channels] = self.shape;
        [side(self.rows, height), side(self.columns, width), channels]
    }

    /// The first pixel of an image.
    fn corner(&self, row: usize, column: usize) -> [usize; 2] {
        let at = |place: usize, side: usize| GAP + place * (side * self.scale + GAP);
        [at(row, self.shape[0]), at(column, self.shape[1])]
    }
}

/// The grid of images: a row for each class, in the order of their numbers. Numbers become bytes by mean and deviation
/// of the channels, and are cut off below black and above white.
fn grid(images: &LabelledImages, preprocessing: &Preprocessing) -> Image {
    let (classes, size) = (images.classes(), images.size());
    let mut counts = vec![0; classes];
    let places: Vec<[usize; 2]> = images
        .labels()
        .iter()
        .map(|label| {
            let class = *label as usize;
            counts[class] += 1;
            [class, counts[class] - 1]
        })
        .collect();
    let grid = Grid::new(classes, counts.iter().copied().max().unwrap_or(0), images.shape());
    let [height, width, channels] = grid.size();
    let mut bytes = vec![BETWEEN; height * width * channels];
    for (pixels, [row, column]) in images.pixels().chunks_exact(size).zip(places) {
        let [top, left] = grid.corner(row, column);
        for (at, pixel) in pixels.chunks_exact(channels).enumerate() {
            let (y, x) = (at / grid.shape[1] * grid.scale, at % grid.shape[1] * grid.scale);
            for (channel, &number) in pixel.iter().enumerate() {
                let byte = byte(number, preprocessing.mean[channel], preprocessing.std[channel]);
                for row in top + y..top + y + grid.scale {
                    for column in left + x..left + x + grid.scale {
                        bytes[(row * width + column) * channels + channel] = byte;
                    }
                }
            }
        }
    }
    Image::new([height, width, channels], bytes)
}

/// The byte of a number that a network reads.
fn byte(number: f32, mean: f32, std: f32) -> u8 {
    (255.0 * (number * std + mean) + 0.5).clamp(0.0, 255.0) as u8
}

/// Bytes of the grid of so many images, without compression.
pub(super) fn bytes_of(classes: usize, per_class: usize, shape: [usize; 3]) -> usize {
    let sizes = Grid::new(classes, per_class, shape).size();
    sizes.iter().copied().fold(1, usize::saturating_mul)
}

/// The grid as a PNG file.
pub(super) fn png_of(images: &LabelledImages, preprocessing: &Preprocessing) -> Vec<u8> {
    png(&grid(images, preprocessing))
}

/// Whether the images after so many iterations are kept as a picture: after 0, 1, 2, 5, 10, 20, 50 and so on.
pub(super) fn is_kept(done: usize) -> bool {
    let mut first = done;
    while first >= 10 && first.is_multiple_of(10) {
        first /= 10;
    }
    [0, 1, 2, 5].contains(&first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_data::images::{Filter, Resize};

    fn preprocessing(mean: &[f32], std: &[f32]) -> Preprocessing {
        Preprocessing {
            resize: Resize::None,
            filter: Filter::Bilinear,
            size: [1, 2],
            mean: mean.to_vec(),
            std: std.to_vec(),
        }
    }

    #[test]
    fn a_class_is_a_row_of_enlarged_images() {
        // Two classes, of which the second one has two images of 1 x 2.
        let pixels = vec![0.0, 1.0, -9.0, 9.0, 0.5, -0.5];
        let images = LabelledImages::new([1, 2, 1], 2, pixels, vec![1, 0, 1]).unwrap();
        let grid = grid(&images, &preprocessing(&[0.5], &[0.5]));
        assert_eq!(grid.shape(), [2 * (32 + 2) + 2, 2 * (64 + 2) + 2, 1]);
        let at = |row: usize, column: usize| grid.bytes()[row * grid.width() + column];
        assert_eq!(
            (at(0, 0), at(2, 70)),
            (BETWEEN, BETWEEN),
            "gaps, and no second image of class 0"
        );
        assert_eq!((at(2, 2), at(33, 33), at(2, 34), at(33, 65)), (0, 0, 255, 255));
        assert_eq!((at(36, 2), at(36, 34)), (128, 255));
        assert_eq!((at(36, 68), at(36, 100)), (191, 64));
    }

    #[test]
    fn many_or_large_images_are_not_enlarged() {
        assert_eq!(Grid::new(10, 1, [28, 28, 1]).scale, 3);
        assert_eq!(Grid::new(10, 50, [32, 32, 3]).scale, 2);
        assert_eq!(Grid::new(10, 100, [32, 32, 3]).scale, 1);
        assert_eq!(Grid::new(2, 1, [224, 200, 3]).scale, 1);
        assert_eq!(bytes_of(2, 1, [224, 200, 3]), (2 * 226 + 2) * (202 + 2) * 3);
    }

    #[test]
    fn ever_fewer_pictures_are_kept() {
        let kept: Vec<usize> = (0..1200).filter(|done| is_kept(*done)).collect();
        assert_eq!(kept, [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]);
    }
}
