//! Converts the norms of a model: which ones, and what changes in its file for it.

mod attributes;
mod compressed;
mod names;
mod nodes;
mod report;
mod unread;
mod verify;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_graph::{Array, Graph, InputKind, ValueId};
use lessen_rewrite::{Conversion, NormOptions, NormTarget, Parameter, ParameterStep, convert_norms, recognize_norms};

use crate::edit::{ChangedTensor, Edits};
use crate::element::Element;
use crate::import::{Imported, Sizes};
use crate::model::Model;
use crate::write;
use names::Names;
pub use report::{LeftAsItIs, Report};
pub use verify::{Difference, difference, difference_of_files, difference_on};

/// The operators that stand for norms without a mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NormOperators {
    /// `SimplifiedLayerNormalization`, which ONNX Runtime has a kernel for.
    OnnxRuntime,
    /// `RMSNormalization` of version 23 of ONNX itself.
    Standard,
}

impl NormOperators {
    /// The name of the operator.
    pub fn name(self) -> &'static str {
        match self {
            NormOperators::OnnxRuntime => "SimplifiedLayerNormalization",
            NormOperators::Standard => "RMSNormalization",
        }
    }

    /// The first version of ONNX that has it; none where no version does.
    fn least_version(self) -> Option<i64> {
        match self {
            NormOperators::OnnxRuntime => None,
            NormOperators::Standard => Some(23),
        }
    }
}

/// A model, its graph, and the conversion of its norms.
pub struct Converter<'m> {
    model: &'m Model,
    imported: Imported,
    /// The graph with norms as operations.
    graph: Graph,
    /// The same after the conversion.
    converted: Graph,
    names: Names<'m>,
    conversion: Conversion,
    operators: NormOperators,
}

impl<'m> Converter<'m> {
    /// Finds out what of a model can be converted, with sizes for the extents of its inputs that have names; the
    /// conversion does not depend on them.
    ///
    /// # Errors
    /// A model that cannot be read.
    pub fn of(model: &'m Model, sizes: &Sizes, target: NormTarget, operators: NormOperators) -> Result<Converter<'m>> {
        let version = model.opset("").unwrap_or(0);
        if let Some(least) = operators.least_version().filter(|least| version < *least) {
            return Err(model.error(&format!(
                "its operators are of version {version}, and {} is there from {least} on; export it with that version, or take \
                 the operators of ONNX Runtime",
                operators.name()
            )));
        }
        let imported = Imported::of(model, sizes)?;
        let (graph, map) = recognize_norms(&imported.graph);
        let names = Names::of(model, &imported, &graph, &map);
        let states: HashMap<ValueId, &str> = graph
            .inputs
            .iter()
            .filter(|input| input.kind == InputKind::State)
            .map(|input| (input.value, input.name.as_str()))
            .collect();
        let known = filled(model, &graph, &imported.constants)?;
        let is_constant = |name: &str| {
            let node = names.definition(name).map(|node| &model.nodes[node]);
            node.is_some_and(|node| node.proto.op_type == "Constant")
        };
        let is_parameter = |value: ValueId| {
            states
                .get(&value)
                .is_some_and(|name| model.initializers.contains_key(*name) || is_constant(name))
        };
        let can_recentre = |value: ValueId| names.first(value).is_some();
        let options = NormOptions {
            target,
            known,
            is_parameter: &is_parameter,
            can_recentre: &can_recentre,
        };
        let (converted, conversion) = convert_norms(&graph, &options);
        Ok(Converter {
            model,
            imported,
            graph,
            converted,
            names,
            conversion,
            operators,
        })
    }

    /// Writes the converted model; the number of bytes written, a file beside it included.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn write(&self, path: &Path) -> Result<u64> {
        write::write(self.model, &self.edits()?, path)
    }

    /// The name of a state.
    fn state(&self, value: ValueId) -> &str {
        self.graph.input(value).map_or("", |input| &input.name)
    }

    /// What changes in the file.
    fn edits(&self) -> Result<Edits<'_>> {
        let mut edits = Edits::default();
        self.recentre(&mut edits)?;
        self.absorb(&mut edits)?;
        self.compress(&mut edits)?;
        for norm in &self.conversion.converted {
            self.norm(norm, &mut edits)?;
        }
        for (state, steps) in self.conversion.parameters.iter() {
            self.change(state, steps, &mut edits);
        }
        unread::remove(self.model, &mut edits);
        Ok(edits)
    }

    /// Enters the new elements of a parameter.
    fn change<'a>(&'a self, state: ValueId, steps: &'a [ParameterStep], edits: &mut Edits<'a>) {
        let name = self.state(state).to_string();
        let shape = self.conversion.parameters.shape(state, &self.graph.ty(state).shape);
        let element = match self.model.initializers.get(&name) {
            Some(tensor) => tensor.element,
            None => {
                // The value of a constant node becomes an initializer.
                edits.removed.extend(self.names.definition(&name));
                Element::F32
            }
        };
        let fill = Box::new(move || {
            let mut parameter = self.parameter(state, |x| x as f32)?;
            parameter.apply(steps, &mut |other| self.parameter(other, |x| x as f32))?;
            Ok(parameter)
        });
        edits.changed.insert(name, ChangedTensor { shape, element, fill });
    }

    /// The original elements of a state.
    fn parameter<T>(&self, state: ValueId, of: impl Fn(f64) -> T) -> Result<Parameter<T>> {
        let name = self.state(state);
        if let Some(tensor) = self.model.initializers.get(name) {
            return Ok(Parameter {
                shape: tensor.shape.clone(),
                data: tensor.elements(&self.model.source, of)?,
            });
        }
        match self.imported.constants.get(name) {
            Some(array) => Ok(Parameter {
                shape: array.ty.shape.to_vec(),
                data: array.data.iter().map(|x| of(*x)).collect(),
            }),
            None => Err(Error::internal(format!("the parameter `{name}` has no elements"))),
        }
    }
}

/// The states of one axis, and the states of computed constants, whose elements all equal one number, such as the scale
/// of a norm that has none of its own.
fn filled(model: &Model, graph: &Graph, constants: &HashMap<String, Arc<Array>>) -> Result<HashMap<ValueId, f64>> {
    let first = |elements: &[f64]| {
        let first = *elements.first()?;
        elements.iter().all(|x| *x == first).then_some(first)
    };
    let mut known = HashMap::new();
    for input in graph.inputs.iter().filter(|input| input.kind == InputKind::State) {
        let Some(tensor) = model.initializers.get(&input.name) else {
            let constant = constants.get(&input.name).and_then(|array| first(&array.data));
            known.extend(constant.map(|number| (input.value, number)));
            continue;
        };
        if tensor.shape.len() != 1 || !tensor.element.is_float() {
            continue;
        }
        let elements = tensor.elements(&model.source, |x| x)?;
        known.extend(first(&elements).map(|number| (input.value, number)));
    }
    Ok(known)
}
