//! Truth values as bits.

pub mod pack;

operations! {
    pack::{PackBits, UnpackBits},
}
