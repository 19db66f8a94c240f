//! Tests of the crate, in one binary.

mod bits;
mod costs;
mod gradients;
mod knapsack;
mod reinforce;
mod searches;
mod supernet;
mod support;
