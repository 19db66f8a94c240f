//! The passes that know a device or plan memory. Each takes a graph and returns an equivalent one; rewrites that know
//! no device are in `lessen-rewrite`.

pub(crate) mod bits;
mod carry;
pub(crate) mod clones;
mod delay;
mod integers;
mod materialize;
mod mixed;
pub(crate) mod narrow;
pub(crate) mod remat;
mod saved;
mod slices;
mod sparse;
mod storage_format;
mod updates;
mod words;

pub use bits::{Hoisted, hoist};
pub use carry::carry;
pub use clones::recompute;
pub(crate) use clones::{Inverted, Recomputation, recompute_by_stages};
pub use delay::{Delayed, delay, pending};
pub use integers::integers;
pub use materialize::materialize;
pub use mixed::mixed;
pub use narrow::read_narrow;
pub(crate) use narrow::widen_where_read;
pub use saved::{Packed, Recompute};
pub(crate) use slices::by_slices;
pub use sparse::sparsify;
pub use storage_format::StorageFormat;
pub use updates::{Update, updates};
pub use words::fill_words;
