//! The integers that products are computed in: all of 64 bits, of which results keep the low ones, so that they wrap as
//! in their own type.

use std::borrow::Cow;

use lessen_base::{Error, Result};

use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostTensor};

/// The type of an array of integers.
///
/// # Errors
/// Other elements.
pub(super) fn integer_of(tensor: &HostTensor) -> Result<Element> {
    match tensor.element() {
        Some(element @ (Element::Int(_) | Element::Unsigned(_))) => Ok(element),
        _ => Err(Error::user("its inputs have no numbers")),
    }
}

/// The integers of an array; those beyond 2^63 wrap.
pub(super) fn wide(tensor: &HostTensor) -> Cow<'_, [i64]> {
    match tensor.data() {
        Data::I64(all) => Cow::Borrowed(all),
        other => match other.cast(Element::Int(8)) {
            Data::I64(all) => Cow::Owned(all),
            _ => Cow::Borrowed(&[]),
        },
    }
}

/// The array of computed integers, which wrap in an element type.
///
/// # Errors
/// Another number of elements than the extents have.
pub(super) fn wrapped(shape: &[usize], all: Vec<i64>, element: Element) -> Result<HostTensor> {
    match element {
        Element::Int(8) => HostTensor::new(shape, all),
        _ => HostTensor::new(shape, Data::from(all).cast(element)),
    }
}
