//! An image in memory.

use std::fmt::Debug;

/// An image, row by row from the top, the channels of a pixel together: `[height, width, channels]`. One channel is
/// grey, three are red, green and blue. It is made of bytes, or of the numbers that a network reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image<T = u8> {
    height: usize,
    width: usize,
    channels: usize,
    samples: Vec<T>,
}

/// What an image is made of: bytes, or numbers.
pub trait Sample: Copy + Debug {
    /// The sample as a number.
    fn number(self) -> f32;

    /// The sample that is nearest to a number, at least 0 where samples are bytes.
    fn nearest(number: f64) -> Self;

    /// The same of a number in single precision.
    fn nearest_single(number: f32) -> Self;

    /// The image after a change of its colours, which bytes alone have.
    fn recoloured(image: Image<Self>, change: &mut dyn FnMut(Image) -> Image) -> Image<Self>;
}

impl Sample for u8 {
    fn number(self) -> f32 {
        self.into()
    }

    fn nearest(number: f64) -> u8 {
        (number + 0.5) as u8
    }

    fn nearest_single(number: f32) -> u8 {
        (number + 0.5).clamp(0.0, 255.0) as u8
    }

    fn recoloured(image: Image, change: &mut dyn FnMut(Image) -> Image) -> Image {
        change(image)
    }
}

impl Sample for f32 {
    fn number(self) -> f32 {
        self
    }

    fn nearest(number: f64) -> f32 {
        number as f32
    }

    fn nearest_single(number: f32) -> f32 {
        number
    }

    fn recoloured(image: Image<f32>, _: &mut dyn FnMut(Image) -> Image) -> Image<f32> {
        image
    }
}

impl<T: Sample> Image<T> {
    /// An image of its samples.
    pub(super) fn of_samples([height, width, channels]: [usize; 3], samples: Vec<T>) -> Image<T> {
        assert_eq!(samples.len(), height * width * channels, "samples of the image");
        Image {
            height,
            width,
            channels,
            samples,
        }
    }

    /// An image of one colour.
    pub(super) fn filled([height, width, channels]: [usize; 3], colour: &[T]) -> Image<T> {
        let samples = colour[..channels].repeat(height * width);
        Image::of_samples([height, width, channels], samples)
    }

    /// The samples.
    pub(super) fn samples(&self) -> &[T] {
        &self.samples
    }

    /// The samples, to change them in place.
    pub(super) fn samples_mut(&mut self) -> &mut [T] {
        &mut self.samples
    }

    /// The channels of a pixel.
    pub(super) fn pixel(&self, row: usize, column: usize) -> &[T] {
        &self.samples[(row * self.width + column) * self.channels..][..self.channels]
    }
}

impl<T> Image<T> {
    /// Returns the number of rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Returns the number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns 1 for grey, 3 for colours.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Returns height, width and channels.
    pub fn shape(&self) -> [usize; 3] {
        [self.height, self.width, self.channels]
    }
}

impl Image {
    /// Makes an image of its bytes.
    ///
    /// # Panics
    /// If there are not as many bytes as the sizes say, or neither 1 nor 3 channels.
    pub fn new([height, width, channels]: [usize; 3], bytes: Vec<u8>) -> Image {
        assert!(channels == 1 || channels == 3, "{channels} channels");
        assert_eq!(bytes.len(), height * width * channels, "bytes of the image");
        Image::of_samples([height, width, channels], bytes)
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.samples
    }

    /// The bytes, to change them in place.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.samples
    }

    /// Returns the image with 1 or 3 channels: grey becomes three equal colours, colours become their luma.
    ///
    /// # Panics
    /// If `channels` is neither 1 nor 3.
    pub fn with_channels(self, channels: usize) -> Image {
        let bytes = match (self.channels, channels) {
            (1, 3) => self.samples.iter().flat_map(|grey| [*grey; 3]).collect(),
            (3, 1) => self.samples.chunks_exact(3).map(luma).collect(),
            _ => self.samples,
        };
        Image::new([self.height, self.width, channels], bytes)
    }
}

/// The brightness of a pixel as ITU-R BT.601 weighs colours, `0.299 R + 0.587 G + 0.114 B`, rounded; that of a grey
/// pixel is itself.
pub(crate) fn luma(pixel: &[u8]) -> u8 {
    match pixel {
        [red, green, blue] => {
            // In units of 2^-16, so that the sum of the weights is exactly 1.
            let sum = 19_595 * u32::from(*red) + 38_470 * u32::from(*green) + 7_471 * u32::from(*blue);
            ((sum + (1 << 15)) >> 16) as u8
        }
        _ => pixel[0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_becomes_colour_and_colour_its_luma() {
        let grey = Image::new([1, 2, 1], vec![7, 200]);
        let colour = grey.clone().with_channels(3);
        assert_eq!(colour.bytes(), [7, 7, 7, 200, 200, 200]);
        assert_eq!(colour.with_channels(1), grey);
        // 0.299 * 255 = 76.2, 0.587 * 255 = 149.7, 0.114 * 255 = 29.1.
        let colours = Image::new([2, 2, 3], vec![255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255]);
        assert_eq!(colours.pixel(1, 0), [0, 0, 255]);
        assert_eq!(colours.with_channels(1).bytes(), [76, 150, 29, 255]);
    }
}
