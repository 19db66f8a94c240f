//! What a file declares of its inputs.

use crate::element::Element;
use crate::proto::{DimensionProto, ValueInfoProto};

/// The element type of an input of numbers.
pub fn element_of(input: &ValueInfoProto) -> Option<Element> {
    Element::of(input.r#type.as_ref()?.tensor_type.as_ref()?.elem_type)
}

/// The extents that the file says of an input.
pub fn extents_of(input: &ValueInfoProto) -> Option<&[DimensionProto]> {
    let shape = input.r#type.as_ref()?.tensor_type.as_ref()?.shape.as_ref()?;
    Some(&shape.dim)
}

/// Whether a name of an extent only says that the extent is not known: each such extent has a size of its own.
pub fn is_unnamed(name: &str) -> bool {
    name.is_empty() || name == "?" || name.parse::<i64>().is_ok_and(|number| number < 0)
}
