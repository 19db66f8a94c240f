//! Operations that read or write rows by number.

pub mod gather;
pub mod scatter_add;

operations! {
    gather::{Gather},
    scatter_add::{ScatterAdd},
}
