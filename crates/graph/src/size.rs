//! Checked sizes: how type rules count elements and add extents, so that no type has a size that cannot be counted.

use lessen_base::{Error, Result};

use crate::types::{DType, Type};

/// A type has fewer elements, extents of 0 counted as 1. In the widest dtype they take less than 1/64 of the address
/// space, so that a cast of a type that fits also fits, and few sizes can be added.
const ELEMENT_LIMIT: usize = isize::MAX as usize / 512 + 1;

/// The number of elements of a shape; none where it is 2^54 or more, extents of 0 counted as 1.
pub fn checked_numel(shape: &[usize]) -> Option<usize> {
    let padded = shape
        .iter()
        .try_fold(1usize, |product, &n| product.checked_mul(n.max(1)))?;
    let fits = padded < ELEMENT_LIMIT;
    fits.then_some(if shape.contains(&0) { 0 } else { padded })
}

/// The sum of extents; none where it overflows.
pub(crate) fn checked_sum(extents: impl IntoIterator<Item = usize>) -> Option<usize> {
    extents.into_iter().try_fold(0usize, usize::checked_add)
}

impl Type {
    /// A type whose size can be counted.
    ///
    /// # Errors
    /// A sentence that names the type, where it has 2^54 elements or more, extents of 0 counted as 1.
    pub fn sized(dtype: DType, shape: &[usize]) -> Result<Type> {
        let ty = Type::new(dtype, shape);
        ty.check_size()?;
        Ok(ty)
    }

    /// Checks that the size can be counted.
    ///
    /// # Errors
    /// A sentence that names the type, where it has 2^54 elements or more, extents of 0 counted as 1.
    pub fn check_size(&self) -> Result<()> {
        if self.fits() {
            Ok(())
        } else {
            Err(Error::user(format!("the type {self} is too large")))
        }
    }

    /// Bytes in memory when stored densely; none where the size cannot be counted.
    pub fn checked_bytes(&self) -> Option<usize> {
        Some(checked_numel(&self.shape)? * self.dtype.bytes())
    }

    /// Whether the size can be counted.
    pub(crate) fn fits(&self) -> bool {
        checked_numel(&self.shape).is_some()
    }
}
