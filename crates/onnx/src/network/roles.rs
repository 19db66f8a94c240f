//! The parameters of a network and their parts in it.

use std::collections::HashMap;

use lessen_base::Result;

use super::tracer::BATCH_NORM;
use super::{NetworkParameter, ParameterRole};
use crate::import::{Sizes, extents};
use crate::model::Model;
use crate::proto::ValueInfoProto;

/// Operators whose input 1 is factors and whose input 2 is terms.
const NORMS: [&str; 6] = [
    BATCH_NORM,
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "RMSNormalization",
    "SimplifiedLayerNormalization",
];

/// The part that an input of an operator has as a parameter of this rank.
pub(super) fn role_of(operator: &str, input: usize, rank: usize) -> ParameterRole {
    match (operator, input) {
        (BATCH_NORM, 3) => ParameterRole::RunningMean,
        (BATCH_NORM, 4) => ParameterRole::RunningVariance,
        (norm, 1) if NORMS.contains(&norm) => ParameterRole::Scale,
        ("Mul" | "Div", _) => ParameterRole::Scale,
        ("Add" | "Sub", _) => ParameterRole::Shift,
        _ if rank < 2 => ParameterRole::Shift,
        _ => ParameterRole::Weight,
    }
}

/// The parameters that are inputs of a network's file.
///
/// # Errors
/// An input without a type.
pub(super) fn parameters(model: &Model, inputs: &[ValueInfoProto]) -> Result<Vec<NetworkParameter>> {
    let mut readers: HashMap<&str, (&str, usize)> = HashMap::new();
    for node in &model.nodes {
        for (input, name) in node.proto.input.iter().enumerate() {
            readers.entry(name).or_insert((&node.proto.op_type, input));
        }
    }
    let parameter = |input: &ValueInfoProto| {
        let found = input.r#type.as_ref().and_then(|ty| extents(ty, &Sizes::new()));
        let Some((_, shape)) = found else {
            let name = &input.name;
            return Err(model.error(&format!("its parameter `{name}` has no extents; restore the file")));
        };
        let (operator, place) = readers.get(input.name.as_str()).copied().unwrap_or_default();
        Ok(NetworkParameter {
            name: input.name.clone(),
            role: role_of(operator, place, shape.len()),
            shape,
        })
    };
    inputs.iter().map(parameter).collect()
}
