//! Running an ONNX model: inputs from NumPy's files or random ones, outputs to such a file.

mod elements;
mod inputs;
mod outputs;
mod random;

pub use inputs::{Given, Inputs, dtype_of_input};
pub(crate) use outputs::array;
pub use outputs::{check, of_outputs, write};
pub use random::random_inputs;
