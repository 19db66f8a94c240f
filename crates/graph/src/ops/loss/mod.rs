//! Losses, one number for each row, and their derivatives.

pub mod cross_entropy;

operations! {
    cross_entropy::{CrossEntropy, CrossEntropyBackward},
}
