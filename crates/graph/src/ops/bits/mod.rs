//! Values in fewer bits: truth values as one, numbers as two to eight.

pub mod fake_quantize;
pub mod pack;
pub mod quantize;

operations! {
    fake_quantize::{FakeQuantize},
    pack::{PackBits, UnpackBits},
    quantize::{DequantizeRows, QuantizeRows},
}
