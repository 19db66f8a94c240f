//! Running an ONNX model: inputs from files or random ones, outputs to files.

mod elements;
mod inputs;
mod outputs;

pub(crate) use elements::array;
pub use inputs::{Inputs, dtype_of_input};
pub use outputs::{check, places, write};
