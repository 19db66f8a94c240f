//! Random bits, numbers of distributions and dropout, drawn from a counter-based generator.

pub mod bits;
mod distributions;
pub mod dropout;

operations! {
    bits::{RandomBits},
    dropout::{Dropout},
}
