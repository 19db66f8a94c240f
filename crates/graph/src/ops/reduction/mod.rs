//! Reductions over axes, and counts of elements.

pub mod histogram;
pub mod reduce;

pub use reduce::ReduceKind;

operations! {
    histogram::{Histogram},
    reduce::{Reduce},
}
