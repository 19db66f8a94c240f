//! Tests of passes, schedules, memory plans and budgets.

mod delay;
mod folding;
mod merging;
mod outside;
mod text_cases;
