//! The tests of serving in one binary.

mod access;
mod bounds;
mod chat;
mod completions;
mod embed;
mod generation_config;
mod hostile;
mod nulls;
mod predict;
mod support;
mod unsound;
