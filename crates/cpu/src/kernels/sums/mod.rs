//! Sums and other reductions along axes, and counts of values.

pub mod histogram;
pub(crate) mod pairwise;
pub mod reduce;
pub(crate) mod reduce_axes;
