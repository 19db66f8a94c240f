//! Parts of images, mirrored ones, and ones with a part taken away.

use super::image::{Image, Sample};

impl Image {
    /// The part of the image, continued in black on all sides, whose upper left corner is at this row and column.
    pub(super) fn part(&self, row: isize, column: isize, height: usize, width: usize) -> Image {
        self.part_on(&[0; 3], [row, column], [height, width])
    }

    /// The middle of the image, which is continued in black where it is smaller.
    pub(super) fn center(&self, height: usize, width: usize) -> Image {
        // The larger part of an odd rest is below and on the right.
        let start = |all: usize, part: usize| (all as isize - part as isize).div_euclid(2);
        self.part(start(self.height(), height), start(self.width(), width), height, width)
    }
}

/// Moves each pixel of an image of numbers of this `[H, W, C]` from so many rows below and columns to the right of its
/// place; pixels from beyond the edges have the colour `fill`.
///
/// # Panics
/// If there are not as many numbers.
pub fn shift(image: &mut [f32], shape: [usize; 3], [down, right]: [isize; 2], fill: &[f32]) {
    let before = Image::of_samples(shape, image.to_vec());
    let moved = before.part_on(fill, [down, right], [shape[0], shape[1]]);
    image.copy_from_slice(moved.samples());
}

/// Exchanges left and right of an image of numbers of this `[H, W, C]`.
///
/// # Panics
/// If there are not as many numbers.
pub fn mirror(image: &mut [f32], shape: [usize; 3]) {
    image.copy_from_slice(Image::of_samples(shape, image.to_vec()).mirrored().samples());
}

impl<T: Sample> Image<T> {
    /// The part of the image, continued in one colour on all sides, whose upper left corner is at this row and column.
    pub(super) fn part_on(&self, colour: &[T], [row, column]: [isize; 2], [height, width]: [usize; 2]) -> Image<T> {
        let channels = self.channels();
        let mut part = Image::filled([height, width, channels], colour);
        // The columns of a row of the part that are inside the image.
        let first = column.clamp(0, self.width() as isize);
        let end = column
            .saturating_add_unsigned(width)
            .clamp(first, self.width() as isize);
        if first == end {
            return part;
        }
        let count = (end - first) as usize * channels;
        let to = (first - column) as usize * channels;
        for (index, out) in part.samples_mut().chunks_exact_mut(width * channels).enumerate() {
            let from = row.saturating_add_unsigned(index);
            if (0..self.height() as isize).contains(&from) {
                let start = (from as usize * self.width() + first as usize) * channels;
                out[to..to + count].copy_from_slice(&self.samples()[start..start + count]);
            }
        }
        part
    }

    /// The image with left and right exchanged.
    pub(super) fn mirrored(mut self) -> Image<T> {
        let (width, channels) = (self.width(), self.channels());
        for row in self.samples_mut().chunks_exact_mut((width * channels).max(1)) {
            for (left, right) in (0..width / 2).map(|left| (left, width - 1 - left)) {
                for channel in 0..channels {
                    row.swap(left * channels + channel, right * channels + channel);
                }
            }
        }
        self
    }

    /// Fills a square around a pixel with one colour, where it is inside the image (DeVries and Taylor, "Improved
    /// regularization of convolutional neural networks with cutout", 2017).
    pub(super) fn cut_out(&mut self, row: usize, column: usize, size: usize, colour: &[T]) {
        let (height, width, channels) = (self.height(), self.width(), self.channels());
        let stretch = |middle: usize, all: usize| {
            let first = middle.saturating_sub(size / 2);
            first..(middle + size.div_ceil(2)).min(all)
        };
        let columns = stretch(column, width);
        for row in stretch(row, height) {
            let start = row * width;
            let hole = &mut self.samples_mut()[(start + columns.start) * channels..(start + columns.end) * channels];
            hole.chunks_exact_mut(channels)
                .for_each(|pixel| pixel.copy_from_slice(&colour[..channels]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        Image::new([2, 3, 1], vec![1, 2, 3, 4, 5, 6])
    }

    #[test]
    fn parts_reach_beyond_the_image_in_black() {
        assert_eq!(image().part(1, 1, 1, 2).bytes(), [5, 6]);
        assert_eq!(image().part(-1, -1, 3, 3).bytes(), [0, 0, 0, 0, 1, 2, 0, 4, 5]);
        assert_eq!(image().part(1, 2, 2, 2).bytes(), [6, 0, 0, 0]);
        assert_eq!(image().part(0, 3, 1, 2).bytes(), [0, 0]);
        assert_eq!(image().part(5, -9, 1, 2).bytes(), [0, 0]);
    }

    #[test]
    fn the_middle_is_found_and_framed() {
        assert_eq!(image().center(2, 1).bytes(), [2, 5]);
        assert_eq!(image().center(1, 2).bytes(), [1, 2]);
        assert_eq!(image().center(2, 5).bytes(), [0, 1, 2, 3, 0, 0, 4, 5, 6, 0]);
    }

    #[test]
    fn a_mirror_keeps_pixels_whole() {
        assert_eq!(image().mirrored().bytes(), [3, 2, 1, 6, 5, 4]);
        let colours = Image::new([1, 2, 3], vec![1, 2, 3, 4, 5, 6]);
        assert_eq!(colours.mirrored().bytes(), [4, 5, 6, 1, 2, 3]);
    }

    #[test]
    fn a_square_is_cut_out_as_far_as_it_lies_inside() {
        let mut corner = image();
        corner.cut_out(0, 2, 2, &[9]);
        assert_eq!(corner.bytes(), [1, 9, 9, 4, 5, 6]);
        let mut whole = image();
        whole.cut_out(1, 1, 9, &[0]);
        assert_eq!(whole.bytes(), [0; 6]);
        let mut one = image();
        one.cut_out(1, 0, 1, &[0]);
        assert_eq!(one.bytes(), [1, 2, 3, 0, 5, 6]);
    }
}
