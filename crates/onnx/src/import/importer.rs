//! The nodes of a model while its graph is traced.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_graph::{Array, Tensor as Traced, Trace, TraceRef, Type};

use super::call::Call;
use super::memo::Memo;
use super::operators::operator;
use super::sizes::Sizes;
use super::{Imported, MOST_INLINE, MOST_KNOWN, MOST_KNOWN_TOGETHER, Value, extents, inferred, known};
use crate::element::Element;
use crate::model::{Model, Node};
use crate::names::OwnName;
use crate::proto::ValueInfoProto;
use crate::tensor::Tensor;

/// Traces a model; `guesses` says whether types that the file does not say are guessed.
pub(super) fn traced(model: &Model, sizes: &Sizes, guesses: bool) -> Result<(Imported, Lacks)> {
    let trace = Trace::new();
    let mut importer = Importer {
        model,
        trace: *trace,
        values: HashMap::new(),
        nodes: Vec::new(),
        constants: HashMap::new(),
        opaque: Vec::new(),
        probes: Vec::new(),
        known: 0,
        memo: Memo::default(),
        read: read(model),
        guesses,
        lacks: Lacks::default(),
    };
    importer.inputs(sizes)?;
    for (i, node) in model.nodes.iter().enumerate() {
        importer.node(i, node, sizes)?;
    }
    importer.outputs();
    let Importer {
        values,
        nodes,
        constants,
        opaque,
        probes,
        lacks,
        ..
    } = importer;
    let known = values.iter().filter_map(|(name, value)| match value {
        Value::Known(array) if array.data.len() <= MOST_INLINE => Some((name.to_string(), array.clone())),
        _ => None,
    });
    let known = known.collect();
    let ids = values.iter().filter_map(|(name, value)| match value {
        Value::Traced(tensor) => Some((name.to_string(), tensor.id())),
        _ => None,
    });
    let imported = Imported {
        values: ids.collect(),
        graph: trace.finish(),
        nodes,
        constants,
        known,
        opaque,
        probes,
    };
    Ok((imported, lacks))
}

struct Importer<'m> {
    model: &'m Model,
    trace: TraceRef,
    values: HashMap<&'m str, Value>,
    nodes: Vec<usize>,
    constants: HashMap<String, Arc<Array>>,
    opaque: Vec<(usize, String)>,
    probes: Vec<String>,
    /// Elements of constants that are known.
    known: usize,
    memo: Memo<'m>,
    /// Names that nodes or outputs of the model read.
    read: HashSet<&'m str>,
    /// Whether types that the file does not say are guessed.
    guesses: bool,
    lacks: Lacks,
}

/// What a trace lacks.
#[derive(Clone, Copy, Default)]
pub(super) struct Lacks {
    /// Whether results of opaque nodes have no types.
    pub types: bool,
    /// The number of opaque nodes whose operators and inputs are known.
    pub failed: usize,
}

/// The names that nodes or outputs of a model read.
fn read(model: &Model) -> HashSet<&str> {
    let outputs = model.outputs.iter().map(|output| output.name.as_str());
    outputs.chain(model.nodes.iter().flat_map(Node::reads)).collect()
}

impl<'m> Importer<'m> {
    fn inputs(&mut self, sizes: &Sizes) -> Result<()> {
        for input in &self.model.inputs {
            let ValueInfoProto { name, r#type: ty } = input;
            let found = ty.as_ref().and_then(|ty| extents(ty, sizes));
            let Some((element, shape)) = found else {
                let sentence =
                    format!("the input `{name}` has extents that are not known; give their sizes with --size");
                return Err(self.model.error(&sentence));
            };
            self.check_size(name, element, &shape)?;
            let tensor = self.trace.input(name, element.dtype(), &shape);
            self.values.insert(name, Value::Traced(tensor));
        }
        Ok(())
    }

    /// Checks that a graph can have a value of this size.
    fn check_size(&self, name: &str, element: Element, shape: &[usize]) -> Result<()> {
        let bytes = shape
            .iter()
            .try_fold(element.bytes(), |bytes, &n| bytes.checked_mul(n.max(1)));
        if bytes.is_some_and(|bytes| bytes < 1 << 48) {
            Ok(())
        } else {
            Err(self
                .model
                .error(&format!("the value `{name}` of extents {shape:?} is too large")))
        }
    }

    /// Traces a node. What cannot be traced is opaque.
    fn node(&mut self, index: usize, node: &'m Node, sizes: &Sizes) -> Result<()> {
        let before = self.trace.with_graph(|graph| graph.nodes.len());
        let traced = self.trace_node(node).and_then(|outputs| self.all_wanted(node, outputs));
        let after = self.trace.with_graph(|graph| graph.nodes.len());
        self.nodes.extend(std::iter::repeat_n(index, after - before));
        match traced {
            Ok(outputs) => {
                let named = node
                    .proto
                    .output
                    .iter()
                    .zip(outputs)
                    .filter(|(name, _)| !name.is_empty());
                for (name, value) in named {
                    let value = self.with_name(name, value);
                    self.values.insert(name, value);
                }
                Ok(())
            }
            Err(why) => {
                let is_there =
                    |name: &str| self.values.contains_key(name) || self.model.initializers.contains_key(name);
                self.lacks.failed += usize::from(operator(node).is_ok() && node.reads().all(is_there));
                self.opaque.push((index, why.message().to_string()));
                self.declare(node, sizes)
            }
        }
    }

    /// The outputs of a node, if none that is read is missing.
    fn all_wanted(&self, node: &'m Node, outputs: Vec<Value>) -> Result<Vec<Value>> {
        let mut missing = node.proto.output.iter().skip(outputs.len());
        match missing.find(|name| self.read.contains(name.as_str())) {
            Some(name) => Err(Error::user(format!("its output `{name}` is not known"))),
            None => Ok(outputs),
        }
    }

    /// Counts the elements of a node's outputs that are known, which may be too many for all nodes together.
    fn count(&mut self, outputs: &[Value]) -> Result<()> {
        let elements = |value: &Value| match value {
            Value::Known(array) => array.data.len(),
            _ => 0,
        };
        self.known += outputs.iter().map(elements).sum::<usize>();
        if self.known <= MOST_KNOWN_TOGETHER {
            Ok(())
        } else {
            Err(Error::user("its constants are too large"))
        }
    }

    /// Known floats as a state of this name, so that they are a parameter as initializers are.
    fn with_name(&mut self, name: &str, value: Value) -> Value {
        match value {
            Value::Known(array) if array.ty.dtype.is_float() && array.data.len() > 1 => {
                let state = self.trace.state(name, array.ty.dtype, &array.ty.shape);
                self.constants.insert(name.to_string(), array);
                Value::Traced(state)
            }
            other => other,
        }
    }

    fn trace_node(&mut self, node: &'m Node) -> Result<Vec<Value>> {
        let operator = operator(node)?;
        let mut inputs = Vec::with_capacity(node.proto.input.len());
        for position in 0..node.proto.input.len() {
            let value = node.input(position).map(|name| self.value(name)).transpose()?;
            inputs.push(value);
        }
        let opset = self.model.version(node);
        let computed = self
            .memo
            .computed(node, (opset, operator), &inputs, &self.model.source)?;
        if let Some((outputs, is_new)) = computed {
            let outputs: Vec<Value> = outputs.into_iter().map(Value::Known).collect();
            if is_new {
                self.count(&outputs)?;
            }
            return Ok(outputs);
        }
        let _inside = self.trace.enter_scope(&node.shown());
        let mut call = Call {
            node,
            opset,
            trace: self.trace,
            inputs,
            constants: Some(&mut self.constants),
            held: None,
            codes: None,
            moves_elements: false,
            elements: &[],
            fixed: None,
            source: &self.model.source,
        };
        let outputs = self.trace.attempt_described(|| operator(&mut call))??;
        self.count(&outputs)?;
        Ok(outputs)
    }

    /// A value that a node reads.
    fn value(&mut self, name: &'m str) -> Result<Value> {
        if let Some(value) = self.values.get(name) {
            return Ok(value.clone());
        }
        let Some(tensor) = self.model.initializers.get(name) else {
            return Err(Error::user(format!("`{name}` is not known")));
        };
        if !tensor.element.is_traced() {
            return Err(Error::user(format!(
                "`{name}` has the type {}, which is not traced",
                tensor.element
            )));
        }
        let value = self.initializer(tensor)?;
        self.values.insert(name, value.clone());
        Ok(value)
    }

    /// An initializer: known where it is small and no float, or one number; otherwise a state.
    fn initializer(&self, tensor: &Tensor) -> Result<Value> {
        let count = tensor.numel();
        let is_known = count <= 1 || (!tensor.element.is_float() && count <= MOST_KNOWN);
        if is_known {
            return Ok(Value::known(known(tensor, &self.model.source)?));
        }
        let dtype = tensor.element.dtype();
        Ok(Value::Traced(self.trace.state(&tensor.name, dtype, &tensor.shape)))
    }

    /// Makes what an opaque node reads outputs of the graph, and what it gives inputs, as far as the file says the
    /// types.
    fn declare(&mut self, node: &'m Node, sizes: &Sizes) -> Result<()> {
        let reads: Vec<&str> = node.reads().collect();
        for name in reads {
            let value = match self.values.get(name) {
                Some(value) => Some(value.clone()),
                None => match self.model.initializers.get(name) {
                    Some(tensor) if tensor.element.is_float() => {
                        let value = self.initializer(tensor)?;
                        let key = tensor.name.as_str();
                        let key = self
                            .model
                            .initializers
                            .get_key_value(key)
                            .map_or("", |(key, _)| key.as_str());
                        self.values.insert(key, value.clone());
                        Some(value)
                    }
                    _ => None,
                },
            };
            if let Some(Value::Traced(tensor)) = value {
                self.probe(name, tensor);
            }
        }
        let mut given = None;
        let outputs = node.proto.output.iter().enumerate();
        for (output, name) in outputs.filter(|(_, name)| !name.is_empty()) {
            let ty = self.model.values.get(name).and_then(|value| value.r#type.as_ref());
            let ty = ty.or_else(|| {
                let output = self.model.outputs.iter().find(|output| output.name == *name);
                output.and_then(|output| output.r#type.as_ref())
            });
            let said = ty.and_then(|ty| extents(ty, sizes));
            if let Some((element, shape)) = &said {
                self.check_size(name, *element, shape)?;
            }
            let said = said.map(|(element, shape)| Type::new(element.dtype(), &shape));
            let found = said.or_else(|| {
                let inputs = given.get_or_insert_with(|| self.given(node));
                let resized = inferred::resized(node, self.model.version(node), inputs);
                let guessed = || inferred::likeliest(output, inputs).filter(|_| self.guesses);
                resized.or_else(guessed)
            });
            match found {
                Some(ty) if ty.numel() < 1 << 45 => {
                    let tensor = self.trace.input(name, ty.dtype, &ty.shape);
                    self.values.insert(name, Value::Traced(tensor));
                }
                _ => self.lacks.types = true,
            }
        }
        Ok(())
    }

    /// What is known of the inputs of a node.
    fn given(&self, node: &Node) -> Vec<inferred::Given> {
        let given = (0..node.proto.input.len()).map(|position| {
            let name = node.input(position).unwrap_or_default();
            let stored = self.model.initializers.get(name);
            let held = self.values.get(name).and_then(|value| match value {
                Value::Known(array) => Some(array),
                _ => self.constants.get(name),
            });
            let few = |tensor: &&Tensor| tensor.numel() <= MOST_INLINE;
            let numbers = held
                .filter(|array| array.data.len() <= MOST_INLINE)
                .map(|array| array.data.clone());
            let ty = match self.values.get(name) {
                Some(Value::Traced(tensor)) => Some(tensor.ty()),
                Some(Value::Known(array)) => Some(array.ty.clone()),
                _ => stored.map(|tensor| Type::new(tensor.element.dtype(), &tensor.shape)),
            };
            let of_file = || Some(known(stored.filter(few)?, &self.model.source).ok()?.data);
            inferred::Given {
                numbers: numbers.or_else(of_file),
                ty,
            }
        });
        given.collect()
    }

    /// Makes a value an output of the graph that is none of the model.
    fn probe(&mut self, name: &str, tensor: Traced) {
        let probe = OwnName::Read(name).to_string();
        if !self.probes.contains(&probe) {
            self.trace.output(&probe, tensor);
            self.probes.push(probe);
        }
    }

    /// Declares the outputs of the model.
    fn outputs(&mut self) {
        let mut seen = HashSet::new();
        for output in &self.model.outputs {
            let value = self.value(&output.name).ok();
            let tensor = match value {
                Some(Value::Traced(tensor)) => tensor,
                Some(Value::Known(array)) => {
                    // The graph's integers hold fewer numbers than those of files.
                    let constant = || self.trace.constant(Arc::unwrap_or_clone(array));
                    let Ok(tensor) = self.trace.attempt_described(constant) else {
                        continue;
                    };
                    tensor
                }
                _ => continue,
            };
            if seen.insert(&output.name) {
                self.trace.output(&output.name, tensor);
            }
        }
    }
}
