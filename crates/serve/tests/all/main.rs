//! The tests of serving in one binary.

mod bounds;
mod chat;
mod completions;
mod embed;
mod predict;
mod support;
