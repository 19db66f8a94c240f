//! The tests of the crate in one binary.

mod buckets;
mod generator;
mod parity;
mod recording;
mod support;
mod trainer;
mod usage;
