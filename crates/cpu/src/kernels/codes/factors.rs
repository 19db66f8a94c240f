//! The factors of a product of codes.

use crate::kernels::rows::Rows;

/// The code of zero of a matrix.
pub(crate) const ZERO: i32 = 128;

/// The factors of a product.
#[derive(Clone, Copy)]
pub struct Factors {
    /// Codes of a row.
    pub k: usize,
    /// The code of zero of the rows.
    pub zero: u8,
    /// Rows of codes, each a run of elements.
    pub codes: Rows<u8>,
    /// A scale for each of these rows; null where the result is the sums, as `i32`.
    pub scale: Rows<f32>,
    /// Rows of codes of the matrix, one for each column of the product, in any strides.
    pub weight: Rows<u8>,
    /// A scale for each of these rows; null where the result is the sums.
    pub weight_scale: *const f32,
    /// An integer that is added to the sums of each column; null without one.
    pub bias: *const i32,
}

impl Factors {
    /// The bits of the element of a row and a column with this sum of products.
    ///
    /// # Safety
    /// There are the row and the column.
    #[inline(always)]
    pub(crate) unsafe fn element(&self, row: usize, column: usize, sum: i32) -> u32 {
        // SAFETY: passed on; pointers that are not null have a number for each row or column.
        unsafe {
            let sum = if self.bias.is_null() {
                sum
            } else {
                sum.wrapping_add(*self.bias.add(column))
            };
            if self.weight_scale.is_null() {
                return sum as u32;
            }
            (sum as f32 * (*self.scale.at(row) * *self.weight_scale.add(column))).to_bits()
        }
    }

    /// Whether the result is the sums.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn gives_sums(&self) -> bool {
        self.weight_scale.is_null()
    }

    /// Whether the code of zero of the rows is another than 128.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn lacks(&self) -> bool {
        i32::from(self.zero) != ZERO
    }

    /// The same for the rows of the product from this one on.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn from(self, row: usize) -> Factors {
        Factors {
            codes: self.codes.from(row),
            scale: self.scale.from(row),
            ..self
        }
    }
}

/// The numbers of a product's inputs.
#[derive(Clone, Copy)]
pub(crate) struct Operands {
    /// The matrix.
    pub(crate) weight: usize,
    /// The scales of rows and of columns; none where the result is the sums.
    pub(crate) scales: Option<[usize; 2]>,
    /// The bias, where there are so many inputs.
    pub(crate) bias: usize,
}

impl Operands {
    pub(crate) const SCALED: Operands = Operands {
        weight: 2,
        scales: Some([1, 3]),
        bias: 4,
    };

    pub(crate) const SUMS: Operands = Operands {
        weight: 1,
        scales: None,
        bias: 2,
    };
}
