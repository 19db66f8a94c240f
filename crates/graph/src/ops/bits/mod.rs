//! Values in fewer bits: truth values as one, numbers as eight.

pub mod pack;
pub mod quantize;

operations! {
    pack::{PackBits, UnpackBits},
    quantize::{DequantizeRows, QuantizeRows},
}
