//! The factors of a product of codes.

use super::rows::Rows;

/// The code of zero.
pub(super) const ZERO: i32 = 128;

/// The factors of a product.
#[derive(Clone, Copy)]
pub struct Factors {
    /// Codes of a row.
    pub k: usize,
    /// Rows of codes, each a run of elements.
    pub codes: Rows<u8>,
    /// A scale for each of these rows.
    pub scale: Rows<f32>,
    /// Rows of codes of the matrix, one for each column of the product, in any strides.
    pub weight: Rows<u8>,
    /// A scale for each of these rows.
    pub weight_scale: *const f32,
}

impl Factors {
    /// The same for the rows of the product from this one on.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn from(self, row: usize) -> Factors {
        Factors {
            codes: self.codes.from(row),
            scale: self.scale.from(row),
            ..self
        }
    }
}
