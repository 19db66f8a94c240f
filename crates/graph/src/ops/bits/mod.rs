//! Values in fewer bits: truth values as one, numbers as eight.

pub mod nibbles;
pub mod pack;
pub mod quantize;
pub mod quantize_linear;

operations! {
    nibbles::{DequantizeGroups},
    pack::{PackBits, UnpackBits},
    quantize::{DequantizeRows, QuantizeRows},
    quantize_linear::{DequantizeLinear, QuantizeLinear},
}
