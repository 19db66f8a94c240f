//! A saved model over HTTP.
//!
//! ```text
//! client ──HTTP──▶ connections ──▶ endpoints ──▶ queue ──▶ the model's thread: texts of all requests together
//!        ◀──JSON, events──────────────────────────reply──────────┘
//! ```
//!
//! - [`serve`] runs a server until it is stopped. The model computes on the calling thread; HTTP has a thread of its
//!   own.
//! - `connections` bounds connections, `paced` lets slow clients go, `memory` bounds the bytes of requests and answers,
//!   `access` says who may ask. `body` and `given` bound and read requests, `endpoints` has what is answered, a file
//!   for each sort of request. HTTP itself is that of `hyper`.
//! - `queue` is between both threads. `texts` and `continuing` are the loops of the model's thread: texts of waiting
//!   requests are computed together, and texts that are continued join and leave between two tokens.
#![forbid(unsafe_code)]

mod access;
mod body;
mod client;
mod connection;
mod connections;
mod continuing;
mod endpoints;
mod given;
mod memory;
mod metrics;
mod options;
mod pace;
mod paced;
mod queue;
mod refusal;
mod reply;
mod server;
mod service;
mod stop;
mod texts;

pub use access::{Access, ApiKey};
pub use lessen_base::{Error, Result};
pub use options::{Limits, MOST_TEXTS, Options};
pub use server::{Announcement, ServedModel, leaves_out_beams, serve};
pub use stop::Stop;
