//! Tests of the crate, in one binary.

mod coreset;
mod evaluation;
mod matching;
mod recorded_steps;
mod schedule;
mod second_derivatives;
mod siamese;
mod support;
