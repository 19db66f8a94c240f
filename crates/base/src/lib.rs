//! Shared ground of all crates of Lessen: one error type, atomic file writing, and one seeded random generator.
//!
//! ```
//! use lessen_base::{Error, SplitMix64};
//!
//! let mut random = SplitMix64::new(1);
//! assert!(random.below(6) < 6);
//! assert_eq!(Error::user("the file x.txt is empty; add a line").exit_code(), 2);
//! ```
#![forbid(unsafe_code)]

pub mod allocated;
pub mod atomic;
mod error;
mod random;

pub use error::{Error, Result};
pub use random::SplitMix64;
