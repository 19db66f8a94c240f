//! Reductions over axes, cumulative sums and products, and counts of elements.

pub mod cumulate;
pub mod histogram;
pub mod reduce;

pub use cumulate::CumulateKind;
pub use reduce::ReduceKind;

operations! {
    cumulate::{Cumulate},
    histogram::{Histogram},
    reduce::{Reduce},
}
