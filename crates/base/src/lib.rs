//! Shared ground of all crates of Lessen: the error type, atomic file writing, a seeded random generator, sizes in
//! bytes as people write them, numbers of tokens that programs are compiled for, memory of this process and of the
//! machine as it is counted and as the system tells it, the watcher of a long job, pointers of Git LFS, the stages of
//! MobileNetV2, the tree by which several processes add, and the number of cases of long tests.
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
mod bucket;
mod budget;
mod cases;
mod error;
pub mod lfs;
pub mod load;
pub mod machine;
pub mod mobilenet;
pub mod process;
mod random;
mod size;
mod sources;
pub mod tree;
pub mod watcher;
pub mod word;

pub use bucket::{bucket, prompt_bucket};
pub use budget::parse_budget;
pub use cases::cases;
pub use error::{Error, Result};
pub use random::SplitMix64;
pub use size::{parse_size, show_size};
pub use sources::keep_sources;
