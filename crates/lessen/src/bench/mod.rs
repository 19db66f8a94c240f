//! The benchmarks of `lessen bench`.

pub mod activation;
pub mod attention;
pub mod bound;
pub mod condense;
mod matching;
pub mod memory;
pub mod onnx;
pub mod onnxruntime;
pub mod predict;
mod random_network;
pub mod roofline;
pub mod shared;
pub mod step;
mod step_cases;
pub mod update;
