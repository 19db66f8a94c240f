//! Sums of products over an axis that the output does not have.

pub mod matmul;

operations! {
    matmul::{MatMul},
}
