//! Random bits and dropout, drawn from a counter-based generator.

pub mod bits;
pub mod dropout;

operations! {
    bits::{RandomBits},
    dropout::{Dropout},
}
