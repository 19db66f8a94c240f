//! The tests of the crate in one binary.

mod attention_keys;
mod chat;
mod chat_bounds;
mod condense_keys;
mod counting;
mod embedding;
mod few_programs;
mod fields_page;
mod generation;
mod in_memory;
mod linear_keys;
mod mutations;
mod norm_keys;
mod other_device;
mod placements;
mod properties;
mod stop_strings;
mod watched;
