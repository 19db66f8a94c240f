//! The tests of the crate in one binary.

mod chat;
mod chat_bounds;
mod embedding;
mod in_memory;
mod stop_strings;
mod threads;
