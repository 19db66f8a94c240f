//! The tests of serving in one binary.

mod bounds;
mod completions;
mod predict;
mod support;
