//! Functions of single elements, of pairs of them, and of their places.

pub mod activation;
pub mod activation_from_output;
pub mod cast;
pub mod operators;
pub mod random;
pub mod rope;
