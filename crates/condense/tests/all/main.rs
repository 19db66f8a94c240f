//! Tests of the crate, in one binary.

mod coreset;
mod distribution;
mod evaluation;
mod experiments;
mod matching;
mod recorded_steps;
mod schedule;
mod second_derivatives;
mod siamese;
mod soft_labels;
mod statistics;
mod support;
mod trajectories;
