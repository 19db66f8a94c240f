//! A node while it is computed in memory: its inputs and attributes.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lessen_base::{Error, Result};

use super::tensor::{HostTensor, HostValue};
use crate::attribute_methods::attribute_methods;
use crate::element::Element;
use crate::proto::{AttributeProto, GraphProto, NodeProto};
use crate::tensor::{Elements, Tensor};

/// A graph in a node's attribute, with its initializers as values.
pub struct Body<'g> {
    /// The graph.
    pub graph: &'g GraphProto,
    /// Its initializers by name.
    pub initializers: Arc<HashMap<String, HostValue>>,
    /// The inputs that are the same in all runs; none where the body is not repeated.
    pub same: Option<HashSet<&'g str>>,
    /// The outputs of each node that reads nothing that changes from run to run, after the first one; none for others.
    pub fixed: Vec<Option<OnceCell<Vec<HostValue>>>>,
}

impl<'g> Body<'g> {
    /// A graph with these initializers.
    pub fn new(graph: &'g GraphProto, initializers: HashMap<String, HostValue>) -> Body<'g> {
        Body {
            fixed: fixed(graph, &HashSet::new()),
            same: None,
            graph,
            initializers: Arc::new(initializers),
        }
    }

    /// The same body as one that is repeated: `states` outputs from `outputs` on are the inputs of the next run from
    /// `inputs` on. A state that is given as it is taken is the same in all runs.
    pub fn repeated(self, [inputs, outputs, states]: [usize; 3]) -> Body<'g> {
        let taken = self.graph.input.iter().skip(inputs).take(states);
        let both = taken.zip(self.graph.output.iter().skip(outputs));
        let same = both.filter(|(taken, given)| taken.name == given.name);
        let same = same.map(|(taken, _)| taken.name.as_str()).collect();
        Body {
            fixed: fixed(self.graph, &same),
            same: Some(same),
            ..self
        }
    }
}

/// Room for the outputs of each node that reads nothing that changes from run to run; `same` are inputs that do not.
fn fixed(graph: &GraphProto, same: &HashSet<&str>) -> Vec<Option<OnceCell<Vec<HostValue>>>> {
    let inputs = graph.input.iter().map(|input| input.name.as_str());
    let mut varying: HashSet<&str> = inputs.filter(|name| !same.contains(name)).collect();
    let fixed = graph.node.iter().map(|node| {
        let has_graphs = node.attribute.iter().any(|a| a.g.is_some() || !a.graphs.is_empty());
        let is_fixed = !has_graphs && !node.input.iter().any(|name| varying.contains(name.as_str()));
        if !is_fixed {
            varying.extend(node.output.iter().map(String::as_str));
        }
        is_fixed.then(OnceCell::new)
    });
    fixed.collect()
}

/// Runs the graphs in a node's attributes, which read names from around the node.
pub trait Bodies {
    /// A graph with its initializers, which may be run many times.
    ///
    /// # Errors
    /// Initializers that cannot be read.
    fn body<'g>(&self, graph: &'g GraphProto) -> Result<Body<'g>>;

    /// The outputs of a graph for these inputs.
    ///
    /// # Errors
    /// Those of its nodes.
    fn run(&self, body: &Body<'_>, inputs: Vec<HostValue>) -> Result<Vec<HostValue>>;

    /// The bytes of a tensor's elements.
    ///
    /// # Errors
    /// A file that cannot be read.
    fn bytes(&self, tensor: &Tensor) -> Result<Vec<u8>>;
}

/// Runs no graph, for nodes that have none.
pub struct NoBodies;

impl Bodies for NoBodies {
    fn body<'g>(&self, _: &'g GraphProto) -> Result<Body<'g>> {
        Err(Error::user("a graph inside of it is not known"))
    }

    fn run(&self, _: &Body<'_>, _: Vec<HostValue>) -> Result<Vec<HostValue>> {
        Err(Error::user("a graph inside of it is not known"))
    }

    fn bytes(&self, _: &Tensor) -> Result<Vec<u8>> {
        Err(Error::user("a tensor inside of it is not known"))
    }
}

/// A function that computes a node and returns its outputs in order; those that are not wanted may be left out at the
/// end.
pub type HostOperator = fn(&HostCall<'_>) -> Result<Vec<HostValue>>;

/// Names of operators, each with its domain and the function that computes its nodes. ONNX itself has the empty domain.
pub type HostOperators = &'static [(&'static str, &'static str, HostOperator)];

/// A node that is computed.
pub struct HostCall<'a> {
    /// The node.
    pub node: &'a NodeProto,
    /// The version of the node's set of operators.
    pub opset: i64,
    /// Inputs by position; those that are absent are none.
    pub inputs: Vec<Option<HostValue>>,
    /// What runs the graphs in attributes.
    pub bodies: &'a dyn Bodies,
}

impl HostCall<'_> {
    /// The error of what this operator does not do: `why` ends the sentence "the node X cannot be run, since ...".
    pub fn refused<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Error::user(why))
    }

    /// Whether an input is there.
    pub fn has(&self, input: usize) -> bool {
        matches!(self.inputs.get(input), Some(Some(value)) if *value != HostValue::Absent)
    }

    /// Whether an output is wanted.
    pub fn wants(&self, output: usize) -> bool {
        self.node.output.get(output).is_some_and(|name| !name.is_empty())
    }

    /// An input of any kind.
    ///
    /// # Errors
    /// An input that is absent.
    pub fn value(&self, input: usize) -> Result<&HostValue> {
        match self.inputs.get(input) {
            Some(Some(value)) => Ok(value),
            _ => self.refused(format!("its input {input} is missing")),
        }
    }

    /// An input that is an array.
    ///
    /// # Errors
    /// An input that is absent, or a list.
    pub fn tensor(&self, input: usize) -> Result<&Arc<HostTensor>> {
        match self.value(input)?.tensor() {
            Some(tensor) => Ok(tensor),
            None => self.refused(format!("its input {input} is no array")),
        }
    }

    /// An input that is an array, if it is there.
    ///
    /// # Errors
    /// A list.
    pub fn optional(&self, input: usize) -> Result<Option<&Arc<HostTensor>>> {
        if self.has(input) {
            self.tensor(input).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The integers of an input.
    ///
    /// # Errors
    /// An input that is absent or has no integers.
    pub fn integers(&self, input: usize) -> Result<Vec<i64>> {
        match self.tensor(input)?.integers() {
            Some(integers) => Ok(integers),
            None => self.refused(format!("its input {input} has no integers")),
        }
    }

    /// The integers of an attribute, or of an input in later versions; none where neither is there.
    ///
    /// # Errors
    /// An input that has no integers.
    pub fn integers_of(&self, attribute: &str, input: usize) -> Result<Option<Vec<i64>>> {
        if self.has(input) {
            return self.integers(input).map(Some);
        }
        Ok(self.ints(attribute))
    }

    /// The first number of an input, such as a scalar.
    ///
    /// # Errors
    /// An input that is absent or has no numbers.
    pub fn number(&self, input: usize) -> Result<f64> {
        match self.tensor(input)?.data().to_f64().first() {
            Some(number) => Ok(*number),
            None => self.refused(format!("its input {input} has no numbers")),
        }
    }

    /// An attribute.
    pub fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        self.node.attribute.iter().find(|attribute| attribute.name == name)
    }

    attribute_methods!();

    /// An attribute that is a list of floats.
    pub fn floats(&self, name: &str) -> Option<Vec<f32>> {
        self.attribute(name).map(|attribute| attribute.floats.clone())
    }

    /// An attribute that is a tensor.
    ///
    /// # Errors
    /// A tensor that cannot be read, or of a type without a name here.
    pub fn stored(&self, name: &str) -> Result<Option<HostTensor>> {
        let Some(message) = self.attribute(name).and_then(|attribute| attribute.t.as_ref()) else {
            return Ok(None);
        };
        if message.data_type == super::message::TEXT {
            return HostTensor::of_message(message).map(Some);
        }
        let Some(tensor) = Tensor::of(message)? else {
            return self.refused(format!(
                "the tensor in its attribute {name} has a type that is not known"
            ));
        };
        let bytes = match &tensor.elements {
            Elements::Held(bytes) => bytes.clone(),
            _ => self.bodies.bytes(&tensor)?,
        };
        HostTensor::of_bytes(&tensor.shape, tensor.element, &bytes).map(Some)
    }

    /// An attribute that is a graph, to run it.
    ///
    /// # Errors
    /// No graph of that name, initializers that cannot be read.
    pub fn body(&self, name: &str) -> Result<Body<'_>> {
        match self.attribute(name).and_then(|attribute| attribute.g.as_ref()) {
            Some(graph) => self.bodies.body(graph),
            None => self.refused(format!("it has no graph {name}")),
        }
    }

    /// The element type of a number of the schema, such as the attribute `to`.
    ///
    /// # Errors
    /// A type that is not known.
    pub fn element(&self, data_type: i64) -> Result<Element> {
        match i32::try_from(data_type).ok().and_then(Element::of) {
            Some(element) => Ok(element),
            None => self.refused(format!("the type {data_type} of ONNX is not known")),
        }
    }

    /// A non-negative axis of a rank.
    ///
    /// # Errors
    /// An axis that is not there.
    pub fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        let at = if axis < 0 { axis + rank as i64 } else { axis };
        match usize::try_from(at).ok().filter(|at| *at < rank) {
            Some(at) => Ok(at),
            None => self.refused(format!("there is no axis {axis} in an array of {rank} axes")),
        }
    }
}

/// One output.
pub fn one(tensor: HostTensor) -> Result<Vec<HostValue>> {
    Ok(vec![tensor.into()])
}
