//! The tests of serving in one binary.

mod bounds;
mod chat;
mod completions;
mod embed;
mod generation_config;
mod predict;
mod support;
mod unsound;
