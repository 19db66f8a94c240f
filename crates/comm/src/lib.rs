//! Several processes of one training: wires that carry bytes, and collectives whose results have the same bits on any
//! number of processes.
//!
//! A [`Wire`] sends and receives: MPI's, which is loaded at run time ([`mpi`]), one over functions of a program's own
//! ([`EngineWire`]), or threads of one process for tests ([`ThreadWire`]), each [`Delayed`] as by a slow network if
//! need be. An [`Exchange`] is a thread that moves all messages of a process over its wire while the process computes,
//! each wait with a deadline. Sums are added up by a [`Tree`] whose shape depends on the number of its leaves alone.
//!
//! ```
//! use std::time::Duration;
//!
//! use lessen_comm::{Exchange, ThreadWire};
//!
//! # fn main() -> lessen_base::Result<()> {
//! let ranks = ThreadWire::connected(2).into_iter().map(|wire| {
//!     std::thread::spawn(|| {
//!         let exchange = Exchange::start(Duration::from_secs(10), || Ok(Box::new(wire)))?;
//!         let names = exchange.gather("the names", vec![exchange.rank() as u8]);
//!         names.end()
//!     })
//! });
//! for rank in ranks.collect::<Vec<_>>() {
//!     assert_eq!(rank.join().unwrap()?, [[0], [1]]);
//! }
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

mod addition;
pub mod buffers;
mod collectives;
mod delayed;
mod engine;
mod exchange;
mod group;
mod link;
mod measure;
#[cfg(unix)]
pub mod mpi;
mod threads;
mod wire;

pub use addition::Addition;
pub use collectives::Reduction;
pub use delayed::{Delayed, Network};
pub use engine::{Engine, EngineWire, Wait};
pub use exchange::{DEADLINE, Exchange, Pending};
pub use group::{Group, UnderWay};
pub use lessen_base::tree::{Accumulator, Tree, bytes_for_sum, deal, part};
pub use threads::ThreadWire;
pub use wire::{LARGEST_TAG, Message, Progress, Request, Wire};
