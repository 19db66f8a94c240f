//! The tests of the crate in one binary.

mod buckets;
mod checkpoint;
mod faults;
mod forward_fused;
mod generator;
mod groups;
mod int8;
mod inversion;
mod memory_planner;
mod mistakes;
mod names;
mod norm_cases;
mod norms;
mod parity;
mod placements;
mod precision;
mod recording;
mod rounded_values;
mod settings;
mod slices;
mod stored_parameters;
mod support;
mod threads;
mod trainer;
mod two_networks;
mod usage;
