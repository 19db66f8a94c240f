//! An image in memory.

/// An image of bytes, row by row from the top, the channels of a pixel together: `[height, width, channels]`. One
/// channel is grey, three are red, green and blue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    height: usize,
    width: usize,
    channels: usize,
    bytes: Vec<u8>,
}

impl Image {
    /// Makes an image of its bytes.
    ///
    /// # Panics
    /// If there are not as many bytes as the sizes say, or neither 1 nor 3 channels.
    pub fn new([height, width, channels]: [usize; 3], bytes: Vec<u8>) -> Image {
        assert!(channels == 1 || channels == 3, "{channels} channels");
        assert_eq!(bytes.len(), height * width * channels, "bytes of the image");
        Image {
            height,
            width,
            channels,
            bytes,
        }
    }

    /// A black image.
    pub(crate) fn black([height, width, channels]: [usize; 3]) -> Image {
        Image::new([height, width, channels], vec![0; height * width * channels])
    }

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

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes, to change them in place.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The channels of a pixel.
    pub(crate) fn pixel(&self, row: usize, column: usize) -> &[u8] {
        &self.bytes[(row * self.width + column) * self.channels..][..self.channels]
    }

    /// Returns the image with 1 or 3 channels: grey becomes three equal colours, colours become their luma.
    ///
    /// # Panics
    /// If `channels` is neither 1 nor 3.
    pub fn with_channels(self, channels: usize) -> Image {
        let bytes = match (self.channels, channels) {
            (1, 3) => self.bytes.iter().flat_map(|grey| [*grey; 3]).collect(),
            (3, 1) => self.bytes.chunks_exact(3).map(luma).collect(),
            _ => self.bytes,
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
