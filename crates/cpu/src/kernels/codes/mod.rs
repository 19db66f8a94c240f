//! Codes of numbers: their making, packing, and products whose factors are codes.

pub mod bits;
pub(crate) mod factors;
pub(crate) mod fake_quantize;
pub mod grouped_matmul;
pub(crate) mod nibbles;
pub mod quantize;
pub(crate) mod quantize_by_range;
pub(crate) mod quantize_linear;
pub mod quantized_matmul;
pub(crate) mod sums;
pub(crate) mod to_code;
