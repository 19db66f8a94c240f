//! Tests of passes, schedules, memory plans and budgets.

mod cost;
mod delay;
mod folding;
mod mean_squares;
mod merging;
mod norms;
mod outside;
mod random_inputs;
mod recognized;
mod text_cases;
