//! Operators whose results are random.

use lessen_base::Result;

use lessen_onnx::host::{HostCall, HostOperators, HostValue};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Bernoulli", refused),
    ("", "Multinomial", refused),
    ("", "RandomNormal", refused),
    ("", "RandomNormalLike", refused),
    ("", "RandomUniform", refused),
    ("", "RandomUniformLike", refused),
];

/// Refuses what has no right answer.
fn refused(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    call.refused(format!("the results of {} are random", call.node.op_type))
}
