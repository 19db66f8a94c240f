//! Converts the norms of a model: which ones, and what changes in its file for it.

mod attributes;
mod compressed;
mod draft;
mod names;
mod nodes;
mod primitives;
mod report;
mod settle;
mod verify;
mod work;
mod written;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_graph::{Array, Graph, InputKind, NodeId, ValueId};
use lessen_rewrite::{
    Conversion, NormOptions, NormTarget, Parameter, ParameterStep, convert_norms, known_numbers, recognize_norms,
};

use draft::Draft;
use lessen_onnx::Element;
use lessen_onnx::edit::{ChangedTensor, Edits};
use lessen_onnx::proto::NodeProto;
use lessen_onnx::{Imported, Sizes};
use lessen_onnx::{Model, Node};
use names::Names;
pub use report::{LeftAsItIs, Report};
pub use verify::{Difference, difference, difference_of_files, difference_on};
pub use work::{Work, bounded_sizes};

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
    sizes: Sizes,
    imported: Imported,
    /// The graph with norms as operations.
    graph: Graph,
    /// For each value of it the number that all its elements equal, where it is known.
    numbers: Vec<Option<f64>>,
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
        let is_sum = |value: ValueId| {
            let node = graph.producer(value).and_then(|node| names.node(node));
            node.is_some_and(|node| model.nodes[node].proto.op_type == "SkipLayerNormalization")
        };
        let can_recentre = |value: ValueId| names.first(value).is_some() || is_sum(value);
        let read = read_names(model);
        // A statistic may be read by a node that is not in the graph, since no output follows from it.
        let can_convert = |norm: NodeId| {
            let result = names.first(graph.nodes[norm.index()].outputs[0]);
            let node = result
                .and_then(|name| names.definition(name))
                .map(|node| &model.nodes[node].proto);
            let is_norm =
                |node: &&NodeProto| ["LayerNormalization", "SkipLayerNormalization"].contains(&&*node.op_type);
            let statistics = node.filter(is_norm).map_or(&[][..], |node| &node.output);
            let mut statistics = statistics.iter().skip(1).take(2);
            result.is_some() && !statistics.any(|name| read.contains(name.as_str()))
        };
        let options = NormOptions {
            target,
            known,
            is_parameter: &is_parameter,
            can_recentre: &can_recentre,
            can_convert: &can_convert,
        };
        let (converted, conversion) = convert_norms(&graph, &options);
        Ok(Converter {
            model,
            sizes: sizes.clone(),
            imported,
            numbers: known_numbers(&graph),
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
    /// As [`Converter::write_checked`].
    pub fn write(&self, path: &Path) -> Result<u64> {
        self.write_checked(path, |_| Ok(())).map(|(bytes, ())| bytes)
    }

    /// The name of a state.
    fn state(&self, value: ValueId) -> &str {
        self.graph.input(value).map_or("", |input| &input.name)
    }

    /// What changes in the file.
    fn edits(&self) -> Result<Edits<'_>> {
        let mut draft = Draft::of(self.model);
        self.name_sums(&mut draft);
        self.recentre(&mut draft)?;
        self.compress(&mut draft)?;
        self.absorb(&mut draft)?;
        for norm in &self.conversion.converted {
            self.norm(norm, &mut draft)?;
        }
        for (state, steps) in self.conversion.parameters.iter() {
            self.change(state, steps, &mut draft);
        }
        let Draft {
            mut edits, shortened, ..
        } = draft;
        settle::settle(self.model, &shortened, &mut edits);
        Ok(edits)
    }

    /// Enters the new elements of a parameter.
    fn change<'a>(&'a self, state: ValueId, steps: &'a [ParameterStep], draft: &mut Draft<'a>) {
        let name = self.state(state).to_string();
        let shape = self.conversion.parameters.shape(state, &self.graph.ty(state).shape);
        let beside = draft.short.get(&state).cloned();
        let element = match self.model.initializers.get(&name) {
            Some(tensor) => tensor.element,
            None => {
                // The value of a constant node becomes an initializer.
                let giver = self.names.definition(&name).filter(|_| beside.is_none());
                draft.edits.removed.extend(giver);
                Element::F32
            }
        };
        let fill = Box::new(move || {
            let mut parameter = self.parameter(state, |x| x as f32)?;
            parameter.apply(steps, &mut |other| self.parameter(other, |x| x as f32))?;
            Ok(parameter.data)
        });
        let changed = ChangedTensor {
            shape,
            element,
            fill,
            beside,
        };
        draft.edits.changed.insert(name, changed);
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

/// The names that nodes or outputs of a model read.
fn read_names(model: &Model) -> HashSet<&str> {
    let outputs = model.outputs.iter().map(|output| output.name.as_str());
    outputs.chain(model.nodes.iter().flat_map(Node::reads)).collect()
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
