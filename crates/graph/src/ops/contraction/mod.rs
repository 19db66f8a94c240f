//! Sums of products over an axis that the output does not have.

pub mod add_matmul;
pub mod grouped_matmul;
pub mod integer_matmul;
pub mod matmul;
pub mod quantized_matmul;

operations! {
    add_matmul::{AddMatMul},
    grouped_matmul::{GroupedMatMul},
    integer_matmul::{IntegerMatMul},
    matmul::{MatMul},
    quantized_matmul::{QuantizedMatMul},
}
