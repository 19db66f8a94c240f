//! Updates of parameters, and the clipping of gradients.

pub mod adadelta;
pub mod adagrad;
pub mod adam;
mod adam_step;
pub mod adamw;
pub mod adamw_8bit;
pub mod adamw_rows;
pub mod block_codes;
pub mod clip;
pub mod lion;
pub mod rmsprop;
pub mod sgd;
mod update;

operations! {
    adadelta::{Adadelta},
    adagrad::{Adagrad},
    adam::{Adam},
    adamw::{AdamW},
    adamw_8bit::{AdamW8bit},
    adamw_rows::{AdamWRows},
    lion::{Lion},
    rmsprop::{RmsProp},
    sgd::{Sgd},
}
