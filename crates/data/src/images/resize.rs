//! Images of another size.

use super::image::{Image, Sample};

/// Interpolation between the pixels of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Along straight lines between neighbours.
    Bilinear,
    /// Along cubic curves (Keys 1981, with `a = -1/2`).
    Bicubic,
}

impl Filter {
    /// How far a pixel reaches, in pixels.
    fn support(self) -> f64 {
        match self {
            Filter::Bilinear => 1.0,
            Filter::Bicubic => 2.0,
        }
    }

    /// The weight of a pixel at this distance.
    fn weight(self, distance: f64) -> f64 {
        let x = distance.abs();
        match self {
            Filter::Bilinear => (1.0 - x).max(0.0),
            Filter::Bicubic if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
            Filter::Bicubic if x < 2.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
            Filter::Bicubic => 0.0,
        }
    }
}

/// Which pixels of a line make one of the new line.
struct Share {
    first: usize,
    weights: Vec<f32>,
}

/// The shares of a line of `from` pixels in one of `to`. Where it becomes shorter, the filter is as much wider, so that
/// every pixel counts.
fn shares(from: usize, to: usize, filter: Filter) -> Vec<Share> {
    let scale = from as f64 / to as f64;
    let widening = scale.max(1.0);
    let reach = filter.support() * widening;
    let share = |place: usize| {
        let center = (place as f64 + 0.5) * scale;
        let first = (center - reach + 0.5).floor().max(0.0) as usize;
        let end = ((center + reach + 0.5).floor() as usize).min(from);
        let weight = |pixel: usize| filter.weight((pixel as f64 + 0.5 - center) / widening);
        let sum: f64 = (first..end).map(weight).sum();
        Share {
            first,
            weights: (first..end).map(|pixel| (weight(pixel) / sum) as f32).collect(),
        }
    };
    (0..to).map(share).collect()
}

impl Image {
    /// Returns the image with other numbers of rows and columns, each pixel a mean of those around its place; where the
    /// image becomes smaller, of all of them. Rows are resized before columns, and each result is rounded.
    ///
    /// # Panics
    /// If an image without pixels is to have some.
    pub fn resized(&self, height: usize, width: usize, filter: Filter) -> Image {
        self.resampled([height, width], filter)
    }
}

impl<T: Sample> Image<T> {
    /// The image with other numbers of rows and columns; see [`Image::resized`].
    pub(super) fn resampled(&self, [height, width]: [usize; 2], filter: Filter) -> Image<T> {
        assert!(
            self.height() * self.width() > 0 || height * width == 0,
            "an image without pixels"
        );
        let channels = self.channels();
        let mut across = Vec::with_capacity(self.height() * width * channels);
        if width == self.width() {
            across.extend_from_slice(self.samples());
        } else {
            let shares = shares(self.width(), width, filter);
            for row in self.samples().chunks_exact(self.width() * channels) {
                for Share { first, weights } in &shares {
                    for channel in 0..channels {
                        let pixels = row[first * channels + channel..].iter().step_by(channels);
                        let sum = weights
                            .iter()
                            .zip(pixels)
                            .map(|(weight, pixel)| weight * pixel.number());
                        across.push(T::nearest_single(sum.sum()));
                    }
                }
            }
        }
        if height == self.height() {
            return Image::of_samples([height, width, channels], across);
        }
        let stride = width * channels;
        let mut samples = Vec::with_capacity(height * stride);
        let mut sums = vec![0.0; stride];
        for Share { first, weights } in shares(self.height(), height, filter) {
            sums.fill(0.0);
            for (weight, row) in weights.iter().zip(across[first * stride..].chunks_exact(stride)) {
                for (sum, pixel) in sums.iter_mut().zip(row) {
                    *sum += weight * pixel.number();
                }
            }
            samples.extend(sums.iter().map(|sum| T::nearest_single(*sum)));
        }
        Image::of_samples([height, width, channels], samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bytes: &[u8]) -> Image {
        Image::new([1, bytes.len(), 1], bytes.to_vec())
    }

    #[test]
    fn a_line_that_grows_has_straight_lines_between_its_pixels() {
        // Places 0.25, 0.75, 1.25 and 1.75 of pixels whose centres are 0.5 and 1.5.
        let grown = line(&[0, 100]).resized(1, 4, Filter::Bilinear);
        assert_eq!(grown.bytes(), [0, 25, 75, 100]);
        let column = Image::new([2, 1, 1], vec![0, 100]).resized(4, 1, Filter::Bilinear);
        assert_eq!(column.bytes(), [0, 25, 75, 100]);
    }

    #[test]
    fn a_line_that_shrinks_counts_every_pixel() {
        // A triangle of width 4 around 1: distances 0.25, 0.25 and 0.75 halves, so weights 3 : 3 : 1.
        let shrunk = line(&[70, 0, 0, 7]).resized(1, 2, Filter::Bilinear);
        assert_eq!(shrunk.bytes(), [30, 3]);
    }

    #[test]
    fn a_cubic_overshoots_at_an_edge() {
        // At 2.25 - 0.5 = 1.75 between pixels 1 and 2: weights of distances 1.75, 0.75, 0.25 and 1.25.
        let weight = |x| Filter::Bicubic.weight(x);
        let weights = [weight(1.75), weight(0.75), weight(0.25), weight(1.25)];
        assert_eq!(weights, [-0.0234375, 0.2265625, 0.8671875, -0.0703125]);
        let grown = line(&[100, 100, 200, 200]).resized(1, 8, Filter::Bicubic);
        // 100 + 100 * (0.8671875 - 0.0703125) = 179.7, and in front of the edge 100 - 100 * 0.0703125 + ...
        assert_eq!(grown.bytes()[4], 180);
        assert_eq!(grown.bytes()[2], 93);
        assert_eq!(grown.bytes()[0], 100);
    }

    #[test]
    fn the_same_size_is_the_same_image_and_channels_stay_apart() {
        let image = Image::new([2, 2, 3], (0..12).map(|byte| 20 * byte).collect());
        assert_eq!(image.resized(2, 2, Filter::Bicubic), image);
        let one = image.resized(1, 1, Filter::Bilinear);
        assert_eq!(one.bytes(), [90, 110, 130]);
    }

    /// Recorded with PyTorch 2: `interpolate(image, size, mode, antialias=True)`, clamped to bytes and rounded once.
    #[test]
    fn results_are_those_of_pytorch_but_for_rounding_between_rows_and_columns() {
        let bytes = (0..35).map(|at| (at * at * 37 % 251) as u8).collect();
        let image = Image::new([5, 7, 1], bytes);
        let cases: [(Filter, [usize; 2], &[u8], u8); 3] = [
            (
                Filter::Bilinear,
                [3, 4],
                &[50, 146, 134, 134, 111, 172, 148, 152, 129, 194, 161, 126],
                1,
            ),
            (
                Filter::Bicubic,
                [3, 4],
                &[45, 149, 135, 134, 104, 180, 147, 152, 126, 200, 162, 123],
                1,
            ),
            (
                Filter::Bicubic,
                [7, 9],
                &[
                    0, 13, 86, 138, 76, 74, 145, 150, 63, 17, 53, 140, 198, 143, 158, 127, 121, 164, 108, 91, 155, 229,
                    183, 223, 108, 97, 255, 233, 90, 93, 188, 151, 193, 102, 105, 251, 50, 46, 139, 246, 213, 77, 94,
                    148, 148, 44, 120, 192, 220, 206, 126, 137, 142, 99, 146, 227, 222, 156, 162, 243, 189, 113, 100,
                ],
                2,
            ),
        ];
        for (filter, [height, width], expected, bound) in cases {
            let found = image.resized(height, width, filter);
            let mut pairs = found.bytes().iter().zip(expected);
            assert!(pairs.all(|(a, b)| a.abs_diff(*b) <= bound), "{filter:?}: {found:?}");
        }
    }
}
