//! Arrays of numbers in NumPy's files: `.npy` holds one array, `.npz` a zip archive of arrays with names.

mod array;
mod dtype;
pub(crate) mod header;
pub mod npy;
pub mod npz;
pub(crate) mod zip;
mod zip_writer;

pub use self::array::Array;
pub use self::dtype::{Dtype, Scalar};
