//! Optimizer updates, in one pass over memory.

mod adamw;
mod adamw_8bit;
mod means;
mod rules;
mod sgd;
mod update;

pub use adamw::{AdamWArrays, AdamWConstants, GradientRows, adamw, adamw_rows};
pub(super) use adamw::{adamw_kernel, adamw_rows_kernel};
pub(super) use adamw_8bit::adamw_8bit_kernel;
pub use adamw_8bit::{Moments, NewMoments, adamw_8bit};
pub use rules::{adadelta, adagrad, adam, lion, rmsprop, rmsprop_with_momentum};
pub(super) use rules::{adadelta_kernel, adagrad_kernel, adam_kernel, lion_kernel, rmsprop_kernel};
pub(super) use sgd::sgd_kernel;
pub use sgd::{SgdConstants, sgd};
pub use update::Operands;
