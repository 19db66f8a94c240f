//! Whole graphs on the CPU: plans of the compiler, run by the executor, against the reference evaluator and against the
//! promises that a plan makes.

mod bits;
mod corners;
mod few_rows;
mod gpt;
mod grouping;
mod helu;
mod measured_costs;
mod memory_planner;
mod networks;
mod outside_operation;
mod packed_products;
mod profiles;
pub mod programs;
mod promises;
mod recomputed_block;
mod row_functions;
mod run_errors;
pub mod runner;
mod slices;
mod states;
mod wrong_indices;
