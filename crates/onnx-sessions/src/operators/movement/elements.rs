//! Elements of one type, for functions that are written once for all types.

use std::cmp::Ordering;

use lessen_base::Result;

use lessen_onnx::host::{Cell, Data, HostCall, HostTensor, Typed, each_number};

/// The elements of an array that must have the type of others.
///
/// # Errors
/// Another type.
pub(super) fn same<'t, T: Typed>(call: &HostCall<'_>, _like: &[T], tensor: &'t HostTensor) -> Result<&'t [T]> {
    match T::of(tensor.data()) {
        Some(all) => Ok(all),
        None => call.refused("its inputs have different types"),
    }
}

/// The array where it has the type of another one.
///
/// # Errors
/// Another type.
pub(super) fn alike<'t>(call: &HostCall<'_>, like: &HostTensor, tensor: &'t HostTensor) -> Result<&'t HostTensor> {
    if tensor.element() == like.element() {
        Ok(tensor)
    } else {
        call.refused("its inputs have different types")
    }
}

/// The cells of elements of the type that others have, which are such cells.
pub(super) fn cells<'d, T: Cell>(_like: &[T], data: &'d Data) -> &'d [T] {
    T::of(data).unwrap_or_default()
}

/// The order of elements, NaN after all numbers.
pub(super) fn ascending<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

/// The most bytes of an element.
pub(super) fn width(data: &Data) -> usize {
    fn of<T>(_: &[T]) -> usize {
        size_of::<T>()
    }
    match data {
        Data::Text(texts) => of(texts) + texts.iter().map(String::len).max().unwrap_or(0),
        other => each_number!(other, v => of(v), else 1),
    }
}
