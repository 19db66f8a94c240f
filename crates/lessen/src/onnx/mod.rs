//! Running an ONNX model: inputs from files or random ones, outputs to files.

mod elements;
mod inputs;
mod outputs;
mod random;

pub(crate) use elements::array;
pub use inputs::{Inputs, dtype_of_input};
pub(crate) use inputs::{element_of, extents, is_unnamed};
pub use outputs::{check, write};
pub use random::random_values;
