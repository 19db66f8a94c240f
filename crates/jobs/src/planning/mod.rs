//! Planning the memory of a run: for each training phase, plans under which the whole process keeps to a budget, and
//! the account of what it is going to allocate.
//!
//! Training and the forecast plan alike, so that a forecast announces what a run takes. The plans of a step say what
//! states, constants and arena take; this module adds what else the process allocates.

pub mod account;
pub(crate) mod budget_search;
pub mod joined;
pub(crate) mod memory_watch;
pub(crate) mod phase_work;
pub(crate) mod process_baseline;
mod program_size;
pub(crate) mod remedies;
pub(crate) mod session_account;
pub mod steps;
