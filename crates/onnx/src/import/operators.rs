//! The operators that are known, by name.

use std::collections::HashMap;
use std::sync::LazyLock;

use lessen_base::{Error, Result};

use super::call::{Operator, Operators};
use super::{
    activation, attention, elementwise, images, indexing, integers, movement, norms, products, recurrent, reductions,
    resizing,
};
use crate::model::Node;

/// The operators of ONNX itself, by file.
const GROUPS: &[Operators] = &[
    activation::OPERATORS,
    attention::OPERATORS,
    elementwise::OPERATORS,
    images::OPERATORS,
    indexing::OPERATORS,
    integers::OPERATORS,
    movement::OPERATORS,
    norms::OPERATORS,
    products::OPERATORS,
    recurrent::OPERATORS,
    reductions::OPERATORS,
    resizing::OPERATORS,
];

static BY_NAME: LazyLock<HashMap<&str, Operator>> =
    LazyLock::new(|| GROUPS.iter().copied().flatten().copied().collect());

/// Domains whose operators are known: ONNX itself, and the contributed operators of ONNX Runtime.
const DOMAINS: [&str; 3] = ["", "ai.onnx", "com.microsoft"];

/// The function that traces a node.
pub(crate) fn operator(node: &Node) -> Result<Operator> {
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
