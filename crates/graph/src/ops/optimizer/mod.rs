//! Updates of parameters, and the clipping of gradients.

pub mod adamw;
pub mod clip;
pub mod sgd;
mod update;

operations! {
    adamw::{AdamW},
    sgd::{Sgd},
}
