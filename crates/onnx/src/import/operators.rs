//! The operators that are known, by name.

use std::collections::HashMap;
use std::sync::LazyLock;

use lessen_base::{Error, Result};

use super::call::Call;
use super::{Value, attention, elementwise, indexing, integers, movement, norms, products, reductions};
use crate::model::Node;

/// Traces a node: its outputs, in order.
pub(crate) type Operator = for<'a, 'g> fn(&mut Call<'a, 'g>) -> Result<Vec<Value<'g>>>;

/// The operators of a kind: names and what traces them.
pub(crate) type Operators = &'static [(&'static str, Operator)];

/// The operators of ONNX itself, by kind.
const KINDS: &[Operators] = &[
    attention::OPERATORS,
    elementwise::OPERATORS,
    indexing::OPERATORS,
    integers::OPERATORS,
    movement::OPERATORS,
    norms::OPERATORS,
    products::OPERATORS,
    reductions::OPERATORS,
];

static BY_NAME: LazyLock<HashMap<&str, Operator>> =
    LazyLock::new(|| KINDS.iter().copied().flatten().copied().collect());

/// Domains whose operators are known: ONNX itself, and the contributed operators of ONNX Runtime.
const DOMAINS: [&str; 3] = ["", "ai.onnx", "com.microsoft"];

/// What traces a node.
pub(crate) fn operator(node: &Node) -> Result<Operator> {
    let (domain, name) = (&node.proto.domain, &node.proto.op_type);
    let found = BY_NAME
        .get(name.as_str())
        .filter(|_| DOMAINS.contains(&domain.as_str()));
    found.copied().ok_or_else(|| match domain.is_empty() {
        true => Error::user(format!("the operator {name} is not known")),
        false => Error::user(format!("the operator {name} of {domain} is not known")),
    })
}
