//! Operators of a model that nothing here computes.

use lessen_base::Result;

use crate::operators::host_operator;
use lessen_onnx::Model;
use lessen_onnx::import::operator;
use lessen_onnx::order::graphs;
use lessen_onnx::proto::NodeProto;

/// Checks that every operator is known, those of branches and bodies as well.
///
/// # Errors
/// A sentence that names all that are not.
pub(super) fn check(model: &Model) -> Result<()> {
    let mut missing: Vec<String> = Vec::new();
    for node in &model.nodes {
        let is_traced = operator(node).is_ok();
        let mut open: Vec<&NodeProto> = vec![&node.proto];
        while let Some(proto) = open.pop() {
            open.extend(graphs(proto).flat_map(|graph| &graph.node));
            let is_outer = std::ptr::eq(proto, &node.proto);
            let is_known = host_operator(proto).is_some() || (is_outer && is_traced);
            let shown = match proto.domain.as_str() {
                "" | "ai.onnx" => proto.op_type.clone(),
                domain => format!("{} of {domain}", proto.op_type),
            };
            if !is_known && !missing.contains(&shown) {
                missing.push(shown);
            }
        }
    }
    match &missing[..] {
        [] => Ok(()),
        [only] => Err(model.error(&format!("the operator {only} is not known, so the model cannot be run"))),
        all => Err(model.error(&format!(
            "the operators {} are not known, so the model cannot be run",
            all.join(", ")
        ))),
    }
}
