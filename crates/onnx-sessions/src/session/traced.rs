//! A model whose nodes are all traced, as one program. Floats of 16 bits are computed in single precision, unlike in a
//! session, which rounds them after each node.

use std::collections::HashMap;

use lessen_base::{Error, Result};
use lessen_device::Backend;
use lessen_graph::{Array, DType, InputKind};

use super::program::{Part, Program, StateSource};
use super::scope::Scope;
use lessen_onnx::Element;
use lessen_onnx::Imported;
use lessen_onnx::Model;
use lessen_onnx::host::{Data, HostTensor};

/// The outputs of a graph of a model for its data inputs by name.
///
/// # Errors
/// A graph that is not all of the model, an index out of range, a file that cannot be read, memory that the device does
/// not have.
pub(crate) fn run_traced<B: Backend + ?Sized>(
    backend: &mut B,
    model: &Model,
    imported: Imported,
    inputs: &[(String, Array)],
) -> Result<HashMap<String, Array>> {
    let graph = imported.graph;
    let states = graph.inputs.iter().filter(|input| input.kind == InputKind::State);
    let initializers = states.filter(|state| !imported.constants.contains_key(&state.name));
    let sources = initializers.map(|state| (state.name.clone(), StateSource::Initializer(state.name.clone())));
    let outputs: Vec<_> = graph
        .outputs
        .iter()
        .map(|output| (output.name.clone(), graph.ty(output.value).clone()))
        .collect();
    let part = Part {
        states: sources.collect(),
        constants: imported.constants,
        outputs: outputs
            .iter()
            .map(|(name, ty)| (name.clone(), element(ty.dtype)))
            .collect(),
        graph,
    };
    let (program, _) = Program::load(backend, model, part)?;
    let scope = Scope::empty();
    for (name, array) in inputs {
        let data = Data::of_f64(element(array.ty.dtype), array.data.iter().copied());
        scope.set(name, HostTensor::new(&array.ty.shape, data)?.into());
    }
    let ran = program.run(backend, &scope);
    program.unload(backend);
    ran?;
    let found = outputs.into_iter().map(|(name, ty)| {
        let value = scope.get(&name)?;
        let Some(tensor) = value.tensor() else {
            return Err(Error::internal(format!("`{name}` is no array")));
        };
        Ok((name, Array::new(ty, tensor.data().to_f64())))
    });
    found.collect()
}

/// The elements of arrays of a dtype.
fn element(dtype: DType) -> Element {
    match dtype {
        DType::F32 => Element::F32,
        DType::F64 => Element::F64,
        DType::Bool => Element::Bool,
        _ => Element::Int(4),
    }
}
