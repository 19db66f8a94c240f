//! Reductions over axes.

pub mod reduce;

pub use reduce::ReduceKind;

operations! {
    reduce::{Reduce},
}
