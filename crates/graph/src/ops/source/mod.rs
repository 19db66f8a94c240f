//! Values without inputs.

pub mod constant;
pub mod full;
pub mod iota;

operations! {
    constant::{Constant},
    full::{Full},
    iota::{Iota},
}
