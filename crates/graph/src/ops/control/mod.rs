//! Control flow: a body that is repeated.

mod derivative;
mod operation;
pub mod scan;

pub use scan::ScanOptions;

operations! {
    scan::{Scan},
}
