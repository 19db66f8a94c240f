//! The extents of a product of two matrices.

use super::PANEL;

/// Rows and columns of one task.
pub(crate) const TASK: usize = 2 * PANEL;

/// The extents of a product.
#[derive(Clone, Copy)]
pub(crate) struct Extents {
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
}
