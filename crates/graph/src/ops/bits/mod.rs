//! Values in fewer bits: truth values as one, numbers as two to eight.

pub mod add_codes;
pub mod fake_quantize;
pub mod nibbles;
pub mod pack;
pub mod quantize;
pub mod quantize_by_range;
pub mod quantize_linear;

operations! {
    add_codes::{AddCodes},
    fake_quantize::{FakeQuantize},
    nibbles::{DequantizeGroups},
    pack::{PackBits, UnpackBits},
    quantize::{DequantizeRows, QuantizeRows},
    quantize_by_range::{QuantizeByRange},
    quantize_linear::{DequantizeLinear, QuantizeLinear},
}
