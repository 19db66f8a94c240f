//! Tests of the CPU: kernels against plain `f64`, the pool and the arena, and whole graphs.

mod args;
mod frozen;
mod kernels;
mod layouts;
mod long_sums;
mod machine;
mod plans;
mod pool;
mod random;
mod safety;
mod split;
mod suite;
mod sums_of_parts;
mod table;
mod table_empty;
mod table_fields;
mod table_runs;
mod tasks;
