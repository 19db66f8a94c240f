//! Operations that read or write rows by number.

pub mod combine_rows;
pub mod gather;
mod one_hot;
pub mod scatter_add;
pub mod sum_along;
mod sums;
pub mod take_along;

operations! {
    combine_rows::{CombineRows},
    gather::{Gather},
    scatter_add::{ScatterAdd},
    sum_along::{SumAlong},
    take_along::{TakeAlong},
}
