//! Tests of the crate, in one binary.

mod matching;
mod support;
