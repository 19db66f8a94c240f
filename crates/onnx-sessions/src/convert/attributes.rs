//! Attributes and tensors of new nodes.

use lessen_onnx::Element;
use lessen_onnx::Tensor;
use lessen_onnx::proto::{AttributeProto, AttributeType};

/// An attribute that is an integer.
pub(super) fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Int.into(),
        i,
        ..AttributeProto::default()
    }
}

/// An attribute that is a list of integers.
pub(super) fn ints(name: &str, ints: Vec<i64>) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Ints.into(),
        ints,
        ..AttributeProto::default()
    }
}

/// An attribute that is a float.
pub(super) fn float(name: &str, f: f64) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Float.into(),
        f: f as f32,
        ..AttributeProto::default()
    }
}

/// A tensor of one number.
pub(super) fn float_tensor(name: &str, number: f64, element: Element) -> Tensor {
    Tensor::held(name, &[], element, &[number])
}
