//! Tests of passes, schedules, memory plans and budgets.

mod cost;
mod delay;
mod folding;
mod merging;
mod norms;
mod outside;
mod text_cases;
