//! The tests of the crate in one binary.

mod mutations;
mod other_device;
mod properties;
mod reference_backend;
