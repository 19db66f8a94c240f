//! What is a run? Recipes, the loop, metrics, checkpoints, resume and reports.
#![forbid(unsafe_code)]

pub mod config;
mod crc;
pub mod durable;
mod error;
pub mod events;
pub mod folder;
pub mod interrupt;
pub mod keys;
pub mod memory;
pub mod metrics;
pub mod progress;
pub mod saved;
pub mod settings;
mod size;

pub use error::{Error, Result};
pub use size::{parse_size, show_size};
