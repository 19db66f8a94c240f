//! The tests of the crate in one binary.

mod chat;
mod chat_bounds;
mod embedding;
mod exported_functions;
mod in_memory;
mod stop_strings;
mod threads;
