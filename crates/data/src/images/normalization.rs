//! The meaning of the numbers that a network reads of images.

/// The size of images as a network reads them, and what a sample `x` from 0 to 1 becomes: `(x - mean) / std`.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalization {
    /// Rows and columns.
    pub size: [usize; 2],
    /// The mean of each channel.
    pub mean: Vec<f32>,
    /// The deviation of each channel, above 0.
    pub std: Vec<f32>,
}

impl Normalization {
    /// Rows, columns and channels.
    pub fn shape(&self) -> [usize; 3] {
        [self.size[0], self.size[1], self.mean.len()]
    }
}
