//! What `lessen bench` measures.

pub mod attention;
pub mod step;
