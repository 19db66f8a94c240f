//! The tests of the crate in one binary.

mod generator;
mod parity;
mod support;
mod trainer;
