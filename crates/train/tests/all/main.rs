//! The tests of the crate in one binary.

mod buckets;
mod checkpoint;
mod forward_fused;
mod generator;
mod inversion;
mod memory_planner;
mod mistakes;
mod norm_cases;
mod norms;
mod parity;
mod placements;
mod precision;
mod recording;
mod rounded_values;
mod slices;
mod support;
mod trainer;
mod usage;
