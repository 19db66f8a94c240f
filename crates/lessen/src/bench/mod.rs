//! What `lessen bench` measures.

pub mod activation;
pub mod attention;
pub mod step;
