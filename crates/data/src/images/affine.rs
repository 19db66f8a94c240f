//! Images turned, sheared, scaled and moved.

use super::image::{Image, Sample};

/// The place in the old image of a place in the new one, both measured from the middle: `x' = a x + b y + c`,
/// `y' = d x + e y + f`, with `x` to the right and `y` down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Affine([f64; 6]);

impl Affine {
    /// Turns the image by so many degrees, against the clock.
    pub(super) fn rotation(degrees: f64) -> Affine {
        let (sin, cos) = degrees.to_radians().sin_cos();
        Affine([cos, -sin, 0.0, sin, cos, 0.0])
    }

    /// Makes everything so many times as large.
    pub(super) fn scale(factor: f64) -> Affine {
        Affine([factor.recip(), 0.0, 0.0, 0.0, factor.recip(), 0.0])
    }

    /// Moves each row to the left by so many times its distance below the middle.
    pub(super) fn shear_x(shear: f64) -> Affine {
        Affine([1.0, shear, 0.0, 0.0, 1.0, 0.0])
    }

    /// Moves each column up by so many times its distance to the right of the middle.
    pub(super) fn shear_y(shear: f64) -> Affine {
        Affine([1.0, 0.0, 0.0, shear, 1.0, 0.0])
    }

    /// Moves the image by so many pixels to the right and down.
    pub(super) fn shift(x: f64, y: f64) -> Affine {
        Affine([1.0, 0.0, -x, 0.0, 1.0, -y])
    }
}

impl Image {
    /// The image as a map changes it; outside of the old image, everything is black.
    pub(super) fn mapped(&self, affine: Affine) -> Image {
        self.mapped_on(&[0; 3], affine)
    }
}

impl<T: Sample> Image<T> {
    /// The image as a map changes it: each pixel is the mean by distance of the four pixels around its place in the old
    /// image; outside of that, everything has one colour.
    pub(super) fn mapped_on(&self, colour: &[T], Affine([a, b, c, d, e, f]): Affine) -> Image<T> {
        let (height, width, channels) = (self.height(), self.width(), self.channels());
        let middle = [(width as f64 - 1.0) / 2.0, (height as f64 - 1.0) / 2.0];
        let mut mapped = Image::filled(self.shape(), colour);
        for (at, out) in mapped.samples_mut().chunks_exact_mut(channels).enumerate() {
            let (x, y) = ((at % width) as f64 - middle[0], (at / width) as f64 - middle[1]);
            let (x, y) = (a * x + b * y + c + middle[0], d * x + e * y + f + middle[1]);
            let (left, top) = (x.floor(), y.floor());
            let (right_share, lower_share) = (x - left, y - top);
            let mut sums = [0.0; 3];
            for (row, row_share) in [(top, 1.0 - lower_share), (top + 1.0, lower_share)] {
                for (column, share) in [(left, 1.0 - right_share), (left + 1.0, right_share)] {
                    if row_share * share == 0.0 {
                        continue;
                    }
                    let is_inside = row >= 0.0 && row < height as f64 && column >= 0.0 && column < width as f64;
                    let pixel = if is_inside {
                        self.pixel(row as usize, column as usize)
                    } else {
                        colour
                    };
                    for (sum, sample) in sums.iter_mut().zip(pixel) {
                        *sum += row_share * share * f64::from(sample.number());
                    }
                }
            }
            for (sample, sum) in out.iter_mut().zip(sums) {
                *sample = T::nearest(sum);
            }
        }
        mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square() -> Image {
        Image::new([3, 3, 1], vec![10, 20, 30, 40, 50, 60, 70, 80, 90])
    }

    #[test]
    fn a_quarter_turn_against_the_clock_brings_the_right_column_to_the_top() {
        let turned = square().mapped(Affine::rotation(90.0));
        assert_eq!(turned.bytes(), [30, 60, 90, 20, 50, 80, 10, 40, 70]);
        assert_eq!(square().mapped(Affine::rotation(0.0)), square());
    }

    #[test]
    fn moving_leaves_black_behind_and_half_a_pixel_is_a_mean() {
        let moved = square().mapped(Affine::shift(1.0, 0.0));
        assert_eq!(moved.bytes(), [0, 10, 20, 0, 40, 50, 0, 70, 80]);
        let moved = square().mapped(Affine::shift(0.0, 0.5));
        assert_eq!(moved.bytes(), [5, 10, 15, 25, 35, 45, 55, 65, 75]);
        let far = square().mapped(Affine::shift(1e9, -1e9));
        assert_eq!(far, Image::filled([3, 3, 1], &[0]));
    }

    #[test]
    fn shears_move_rows_and_columns_by_their_distance_from_the_middle() {
        let rows = square().mapped(Affine::shear_x(1.0));
        assert_eq!(rows.bytes(), [0, 10, 20, 40, 50, 60, 80, 90, 0]);
        let columns = square().mapped(Affine::shear_y(1.0));
        assert_eq!(columns.bytes(), [0, 20, 60, 10, 50, 90, 40, 80, 0]);
    }

    #[test]
    fn twice_the_size_shows_the_middle() {
        let image = Image::new([1, 5, 3], (0..15).map(|byte| byte * 10).collect());
        let large = image.mapped(Affine::scale(2.0));
        // Places 1, 1.5, 2, 2.5 and 3 of the old row.
        assert_eq!(
            large.bytes(),
            [30, 40, 50, 45, 55, 65, 60, 70, 80, 75, 85, 95, 90, 100, 110]
        );
    }
}
