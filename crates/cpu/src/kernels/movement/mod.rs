//! Elements that move: copies, rows at indices, and sums into such rows.

pub(crate) mod combine_rows;
pub mod copy;
pub mod gather;
pub(crate) mod join;
