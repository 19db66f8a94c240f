//! The tests of the crate in one binary.

mod fields_page;
mod generation;
mod mutations;
mod properties;
