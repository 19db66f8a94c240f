//! The operators that are computed in memory, by name.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{control, elementwise, images, learning, movement, products};
use lessen_onnx::host::{HostOperator, HostOperators};
use lessen_onnx::proto::NodeProto;

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
