//! Operations that read or write rows by number.

pub mod combine_rows;
pub mod gather;
pub mod scatter_add;
mod sums;

operations! {
    combine_rows::{CombineRows},
    gather::{Gather},
    scatter_add::{ScatterAdd},
}
