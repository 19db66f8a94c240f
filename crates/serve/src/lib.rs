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
//!
//! ```no_run
//! use lessen_cpu::CpuBackend;
//! use lessen_saved::saved_run::{AdapterOptions, SavedRun};
//! use lessen_serve::{Access, Limits, Options, ServedModel, Stop, serve};
//! use lessen_task::device::NewBackend;
//! use lessen_task::folder::WhichModel;
//! use std::net::Ipv4Addr;
//! use std::path::Path;
//!
//! let device = NewBackend::new(|| Ok(Box::new(CpuBackend::new(2)?)));
//! let run = SavedRun::open(Path::new("runs/sst2"), WhichModel::Last, AdapterOptions::default(), &device)?;
//! let options = Options {
//!     host: Ipv4Addr::LOCALHOST.into(),
//!     port: 8080,
//!     name: "sst2".to_string(),
//!     limits: Limits::default(),
//!     access: Access::default(),
//! };
//! serve(ServedModel::Run(Box::new(run)), options, &Stop::default(), &mut |ready| {
//!     println!("ready at {}", ready.address);
//!     Ok(())
//! })?;
//! # Ok::<(), lessen_base::Error>(())
//! ```
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
