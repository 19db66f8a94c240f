//! The tests of the crate in one binary.

mod buckets;
mod checkpoint;
mod forward_fused;
mod generator;
mod inversion;
mod memory_planner;
mod mistakes;
mod narrow_storage;
mod parity;
mod precision;
mod recording;
mod support;
mod trainer;
mod usage;
