//! The tests of the crate in one binary.

mod other_device;
mod reference_backend;
