//! Tests of passes, schedules, memory plans and budgets.

mod carry;
mod cost;
mod delay;
mod folding;
mod outside;
mod sizes;
mod sparse_factors;
mod text_cases;
