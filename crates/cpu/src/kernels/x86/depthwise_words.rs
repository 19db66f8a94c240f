//! Vectors of words of 16 channels, a word being codes of four rows of an image.

/// Channels of a vector, and rows of a word.
pub(crate) const VECTOR: usize = 16;
pub(crate) const WORD: usize = 4;

/// The words of 16 channels.
pub(crate) trait Words {
    /// They, or their sums of products.
    type Vector: Copy;

    /// Zeros.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn zeros() -> Self::Vector;

    /// Reads words.
    ///
    /// # Safety
    /// As above; the words are readable.
    unsafe fn load(from: *const u8) -> Self::Vector;

    /// Adds the products of words to their sums.
    ///
    /// # Safety
    /// As above.
    unsafe fn add(sums: Self::Vector, words: Self::Vector, levels: Self::Vector) -> Self::Vector;

    /// The sums.
    ///
    /// # Safety
    /// As above.
    unsafe fn sums(vector: Self::Vector) -> [i32; VECTOR];
}
