//! The operators that are known, by name.

use std::collections::HashMap;
use std::sync::LazyLock;

use lessen_base::{Error, Result};

use super::call::{Operator, Operators};
use super::{
    activation, attention, contributed_attention, elements, elementwise, images, indexing, integer_windows, integers,
    movement, norms, order, products, quantized, recurrent, reductions, resizing,
};
use crate::model::Node;

/// The operators of ONNX itself, by file.
const GROUPS: &[Operators] = &[
    activation::OPERATORS,
    attention::OPERATORS,
    contributed_attention::OPERATORS,
    elements::OPERATORS,
    elementwise::OPERATORS,
    images::OPERATORS,
    indexing::OPERATORS,
    integer_windows::OPERATORS,
    integers::OPERATORS,
    movement::ADDING,
    movement::OPERATORS,
    norms::OPERATORS,
    order::OPERATORS,
    order::POSITIONS,
    products::OPERATORS,
    quantized::OPERATORS,
    recurrent::OPERATORS,
    reductions::OPERATORS,
    resizing::OPERATORS,
];

static BY_NAME: LazyLock<HashMap<&str, Operator>> =
    LazyLock::new(|| GROUPS.iter().copied().flatten().copied().collect());

/// Domains whose operators are known: ONNX itself, and the contributed operators of ONNX Runtime.
const DOMAINS: [&str; 3] = ["", "ai.onnx", "com.microsoft"];

/// Whether a node's operator moves elements as they are, so that it works on codes as well.
pub fn moves_elements(node: &Node) -> bool {
    let name = node.proto.op_type.as_str();
    movement::OPERATORS.iter().any(|(operator, _)| *operator == name)
}

/// Whether a node's operator gives positions alone, through which no derivative passes.
pub(crate) fn gives_positions(node: &Node) -> bool {
    let name = node.proto.op_type.as_str();
    order::POSITIONS.iter().any(|(operator, _)| *operator == name)
}

/// Whether a node's operator is one on integers of 8 bits with scales.
pub(crate) fn is_of_integers(node: &Node) -> bool {
    let name = node.proto.op_type.as_str();
    let mut all = [quantized::OPERATORS, integer_windows::OPERATORS].into_iter().flatten();
    all.any(|(operator, _)| *operator == name)
}

/// The function that traces a node.
pub fn operator(node: &Node) -> Result<Operator> {
    let (domain, name) = (&node.proto.domain, &node.proto.op_type);
    let found = BY_NAME
        .get(name.as_str())
        .filter(|_| DOMAINS.contains(&domain.as_str()));
    found.copied().ok_or_else(|| {
        if domain.is_empty() {
            Error::user(format!("the operator {name} is not known"))
        } else {
            Error::user(format!("the operator {name} of {domain} is not known"))
        }
    })
}
