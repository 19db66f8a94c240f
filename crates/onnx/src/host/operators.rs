//! The operators that are computed in memory, by name.

use std::collections::HashMap;
use std::sync::LazyLock;

use lessen_base::Result;

use super::call::HostCall;
use super::tensor::HostValue;
use super::{control, elementwise, images, learning, movement, products};
use crate::proto::NodeProto;

/// A function that computes a node and returns its outputs in order; those that are not wanted may be left out at the
/// end.
pub(crate) type HostOperator = fn(&HostCall<'_>) -> Result<Vec<HostValue>>;

/// Names of operators, each with its domain and the function that computes its nodes. ONNX itself has the empty domain.
pub(crate) type HostOperators = &'static [(&'static str, &'static str, HostOperator)];

/// The operators, by folder and file.
const GROUPS: &[&[HostOperators]] = &[
    control::GROUPS,
    elementwise::GROUPS,
    images::GROUPS,
    learning::GROUPS,
    movement::GROUPS,
    products::GROUPS,
];

static BY_NAME: LazyLock<HashMap<(&str, &str), HostOperator>> = LazyLock::new(|| {
    let all = GROUPS.iter().copied().flatten().copied().flatten();
    all.map(|(domain, name, operator)| ((*domain, *name), *operator))
        .collect()
});

/// The function that computes a node in memory.
pub(crate) fn host_operator(node: &NodeProto) -> Option<HostOperator> {
    let domain = match node.domain.as_str() {
        "ai.onnx" => "",
        domain => domain,
    };
    BY_NAME.get(&(domain, node.op_type.as_str())).copied()
}
