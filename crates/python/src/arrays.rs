//! Arrays between NumPy and Lessen. Python's files hand over elements as bytes in row-major, little-endian order, with
//! their dtype and shape, and view bytes that come back in the same way.

use lessen_base::{Error, Result};
use lessen_data::arrays::{Array, Dtype};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;

/// A dtype as NumPy writes it, such as `<f4`, a shape, and the elements' bytes.
pub type Given<'py> = (String, Vec<usize>, PyReadonlyArray1<'py, u8>);

/// The same of an array that comes back.
pub type Returned<'py> = (String, Vec<usize>, Bound<'py, PyArray1<u8>>);

/// An array that was given.
///
/// # Errors
/// A dtype that no model takes.
pub fn array((dtype, shape, bytes): &Given<'_>) -> Result<Array> {
    let found = Dtype::of(dtype).ok_or_else(|| {
        Error::user(format!(
            "an array has the dtype {dtype}, which no model takes; convert it to numbers with astype"
        ))
    })?;
    let bytes = bytes.as_array().to_vec();
    let count = shape
        .iter()
        .try_fold(found.bytes(), |count, extent| count.checked_mul(*extent));
    match count {
        Some(count) if count == bytes.len() => Ok(Array::of_bytes(shape.clone(), found, bytes)),
        _ => Err(Error::internal(
            "an array has another number of bytes than its shape says",
        )),
    }
}

/// An array that comes back.
pub fn returned<'py>(py: Python<'py>, array: &Array) -> Returned<'py> {
    let bytes = array.bytes().to_vec().into_pyarray(py);
    (array.dtype().descr(), array.shape().to_vec(), bytes)
}

/// Rows of one length as an array `[rows, elements]`.
///
/// # Errors
/// Rows of several lengths.
pub fn matrix<'py, T: numpy::Element>(py: Python<'py>, rows: Vec<Vec<T>>) -> PyResult<Bound<'py, PyArray2<T>>> {
    let shape = [rows.len(), rows.first().map_or(0, Vec::len)];
    let flat: Vec<T> = rows.into_iter().flatten().collect();
    flat.into_pyarray(py).reshape(shape)
}
