//! Updates of parameters, and the clipping of gradients.

pub mod adamw;
pub mod adamw_rows;
pub mod clip;
pub mod sgd;
mod update;

operations! {
    adamw::{AdamW},
    adamw_rows::{AdamWRows},
    sgd::{Sgd},
}
