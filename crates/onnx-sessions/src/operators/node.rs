//! One node, computed without a model.

use lessen_base::{Error, Result};

use super::table::host_operator;
use lessen_onnx::host::HostValue;
use lessen_onnx::host::{HostCall, NoBodies};
use lessen_onnx::proto::NodeProto;

/// The outputs of a node in their order, computed in memory in the types of its inputs, which are in order, too; those
/// that are absent are none. `opset` is the version of the node's set of operators.
///
/// # Errors
/// An operator that is not known, inputs that do not fit it, attributes with graphs or with elements in other files.
pub fn run_node(node: &NodeProto, opset: i64, inputs: Vec<Option<HostValue>>) -> Result<Vec<HostValue>> {
    let Some(operator) = host_operator(node) else {
        return Err(Error::user(format!("the operator {} is not known", node.op_type)));
    };
    operator(&HostCall {
        node,
        opset,
        inputs,
        bodies: &NoBodies,
    })
}
