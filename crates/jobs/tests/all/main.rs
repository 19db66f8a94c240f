//! The tests of the crate in one binary.

mod attention_keys;
mod condense_keys;
mod counting;
mod fed;
mod few_programs;
mod in_memory;
mod linear_keys;
mod norm_keys;
mod other_device;
mod placements;
mod watched;
