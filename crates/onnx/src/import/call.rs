//! A node of a model while it is traced: its inputs and attributes.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_graph::{Array, DType, Tensor, Trace, TraceRef, Type, evaluate_exactly};

use super::{CodeStates, HeldInputs, MOST_INLINE, MOST_KNOWN, Value, known};
use crate::attribute_methods::attribute_methods;
use crate::element::Element;
use crate::host::{HostTensor, HostValue};
use crate::model::Node;
use crate::names::OwnName;
use crate::proto::AttributeProto;
use crate::tensor::Tensor as Stored;
use crate::wire::Source;

/// Gives the array that a name stands for in all runs, if it has one.
pub type FixedValues<'a> = &'a dyn Fn(&str) -> Option<HostValue>;

/// A node, its inputs, and the trace that it appends to.
pub struct Call<'a> {
    pub node: &'a Node,
    /// The version of the node's set of operators.
    pub opset: i64,
    pub trace: TraceRef,
    pub inputs: Vec<Option<Value>>,
    /// Values of states that stand for large constants; none where all that is traced is a constant.
    pub constants: Option<&'a mut HashMap<String, Arc<Array>>>,
    /// Arrays in memory that the program has as inputs; none where a file alone is traced.
    pub held: Option<&'a mut HeldInputs>,
    /// States of codes that the program has so far; none where a file alone is traced.
    pub codes: Option<&'a mut CodeStates>,
    /// Whether the operator moves elements as they are, so that it works on codes as well.
    pub moves_elements: bool,
    /// The types of the inputs that are there, in order, as the file has them; none where a file alone is traced.
    pub elements: &'a [Element],
    /// What names stand for in all runs that a session traces a program for; none where a file alone is traced.
    pub fixed: Option<FixedValues<'a>>,
    pub source: &'a Source,
}

/// A function that traces a node and returns its outputs in order.
pub type Operator = for<'a> fn(&mut Call<'a>) -> Result<Vec<Value>>;

/// Names of operators, each with the function that traces its nodes.
pub type Operators = &'static [(&'static str, Operator)];

/// The outputs of a node whose inputs are known.
pub fn evaluated(
    node: &Node,
    opset: i64,
    operator: Operator,
    inputs: &[Option<Arc<Array>>],
    source: &Source,
) -> Result<Vec<Arc<Array>>> {
    let trace = Trace::new();
    let values = inputs
        .iter()
        .map(|input| input.as_ref().map(|array| Value::Known(array.clone())));
    let values: Vec<Option<Value>> = values.collect();
    let mut call = Call {
        node,
        opset,
        trace: *trace,
        inputs: values,
        constants: None,
        held: None,
        codes: None,
        moves_elements: false,
        elements: &[],
        fixed: None,
        source,
    };
    let outputs = trace.attempt_described(|| operator(&mut call))??;
    let mut known = Vec::with_capacity(outputs.len());
    let mut traced = Vec::new();
    for (i, output) in outputs.into_iter().enumerate() {
        match output {
            Value::Known(array) => known.push(Some(array)),
            Value::Traced(tensor) => {
                if tensor.ty().numel() > MOST_KNOWN {
                    return Err(Error::user(format!("a constant of type {} is too large", tensor.ty())));
                }
                trace.output(&i.to_string(), tensor);
                traced.push(i);
                known.push(None);
            }
            _ => return Err(Error::internal("a value of a session among constants")),
        }
    }
    let mut results = if traced.is_empty() {
        HashMap::new()
    } else {
        evaluate_exactly(&trace.finish(), &HashMap::new())?
    };
    let outputs = known.into_iter().enumerate().map(|(i, array)| {
        let array = array.or_else(|| Some(Arc::new(results.remove(&i.to_string())?)));
        array.expect("known, or an output of the graph")
    });
    Ok(outputs.collect())
}

impl Call<'_> {
    /// The error of a node that is not traced.
    pub fn unknown<T>(&self, why: &str) -> Result<T> {
        Err(Error::user(format!("{why} is not known")))
    }

    /// Whether an input is there.
    pub fn has(&self, input: usize) -> bool {
        self.inputs.get(input).is_some_and(Option::is_some)
    }

    /// The numbers of an input that is known.
    pub fn known(&self, input: usize) -> Option<&Array> {
        match self.inputs.get(input)? {
            Some(Value::Known(array)) => Some(array),
            _ => None,
        }
    }

    /// The number of elements and the extents of an input.
    pub fn ty(&self, input: usize) -> Result<Type> {
        match self.inputs.get(input) {
            Some(Some(Value::Known(array))) => Ok(array.ty.clone()),
            Some(Some(Value::Traced(tensor) | Value::Integers(tensor))) => Ok(tensor.ty()),
            Some(Some(Value::Codes(codes))) => Ok(Type::new(DType::I32, &codes.tensor.shape())),
            Some(Some(Value::Restored(restored))) => Ok(Type::f32(restored.values.shape())),
            Some(Some(Value::Held(held))) => match held.ty() {
                Some(ty) => Ok(ty),
                None => self.unknown("an operator on texts"),
            },
            _ => self.unknown(&format!("a node without its input {input}")),
        }
    }

    /// An input as a value of the graph.
    pub fn tensor(&mut self, input: usize) -> Result<Tensor> {
        match self.inputs.get(input).cloned() {
            Some(Some(Value::Traced(tensor) | Value::Integers(tensor))) => Ok(tensor),
            Some(Some(Value::Codes(codes))) if self.moves_elements => Ok(codes.tensor),
            Some(Some(Value::Codes(_))) => self.unknown("an operator on integers of 8 bits"),
            Some(Some(Value::Restored(restored))) => {
                let values = restored.values.data().to_f64();
                let tensor = self.constant(Array::f32(restored.values.shape(), values));
                self.inputs[input] = Some(Value::Traced(tensor));
                Ok(tensor)
            }
            Some(Some(Value::Known(array))) => {
                let tensor = self.constant(Arc::unwrap_or_clone(array));
                self.inputs[input] = Some(Value::Traced(tensor));
                Ok(tensor)
            }
            Some(Some(Value::Held(own))) => {
                let tensor = match &mut self.held {
                    Some(inputs) => own.input(self.trace, inputs),
                    None => None,
                };
                match tensor {
                    Some(tensor) => Ok(tensor),
                    None => self.unknown("an operator on texts"),
                }
            }
            _ => self.unknown(&format!("a node without its input {input}")),
        }
    }

    /// Whether an input has floats of 16 bits, or several types of floats are mixed.
    pub fn has_narrow_floats(&self) -> bool {
        let mut floats = self.elements.iter().filter(|element| element.is_float());
        floats.any(|element| *element != Element::F32)
    }

    /// Numbers as a value of the graph: a filled tensor, a constant, or a state.
    pub fn constant(&mut self, array: Array) -> Tensor {
        let first = array.data.first().copied();
        if let Some(first) = first.filter(|first| array.data.iter().all(|x| x.to_bits() == first.to_bits())) {
            return self.trace.full(array.ty.dtype, &array.ty.shape, first);
        }
        match &mut self.constants {
            Some(constants) if array.data.len() > MOST_INLINE => {
                let name = OwnName::Constant(constants.len()).to_string();
                let tensor = self.trace.state(&name, array.ty.dtype, &array.ty.shape);
                constants.insert(name, Arc::new(array));
                tensor
            }
            _ => self.trace.constant(array),
        }
    }

    /// An input that must be known as an array in memory.
    pub fn host(&self, input: usize) -> Result<HostValue> {
        if let Some(Some(Value::Held(held))) = self.inputs.get(input)
            && let Some(tensor) = held.elements()
        {
            return Ok(HostValue::Tensor(tensor));
        }
        if let Some(array) = self.known(input) {
            return Ok(HostTensor::new(&array.ty.shape, array.data.clone())?.into());
        }
        let fixed = self
            .fixed
            .zip(self.node.input(input))
            .and_then(|(fixed, name)| fixed(name));
        match fixed {
            Some(value) => Ok(value),
            None => self.unknown(&format!("an input {input} that is computed")),
        }
    }

    /// The integers of an input that must be known, such as a shape or axes.
    pub fn integers(&self, input: usize) -> Result<Vec<i64>> {
        if let Some(Some(Value::Held(held))) = self.inputs.get(input)
            && let Some(integers) = held.integers()
        {
            return Ok(integers);
        }
        match self.known(input) {
            Some(array) => Ok(array.data.iter().map(|x| *x as i64).collect()),
            None => self.unknown(&format!("an input {input} that is computed")),
        }
    }

    /// The integers of an attribute, or of an input in later versions; none where neither is there.
    pub fn integers_of(&self, attribute: &str, input: usize) -> Result<Option<Vec<i64>>> {
        if self.has(input) {
            return self.integers(input).map(Some);
        }
        Ok(self.ints(attribute))
    }

    /// An attribute.
    pub fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        self.node.attribute(name)
    }

    attribute_methods!();

    /// An attribute that is a tensor.
    pub fn stored(&self, name: &str) -> Result<Option<(Stored, Array)>> {
        let Some(message) = self.node.attribute(name).and_then(|attribute| attribute.t.as_ref()) else {
            return Ok(None);
        };
        match Stored::of(message)? {
            Some(tensor) if tensor.numel() <= MOST_KNOWN => {
                let array = known(&tensor, self.source)?;
                Ok(Some((tensor, array)))
            }
            Some(_) => self.unknown("a large tensor in an attribute"),
            None => self.unknown("a tensor of this type"),
        }
    }

    /// A non-negative axis of a rank.
    pub fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        let at = if axis < 0 { axis + rank as i64 } else { axis };
        match usize::try_from(at).ok().filter(|at| *at < rank) {
            Some(at) => Ok(at),
            None => self.unknown(&format!("an axis {axis} of a value of {rank} axes")),
        }
    }
}

/// One output.
pub fn one(tensor: Tensor) -> Result<Vec<Value>> {
    Ok(vec![Value::Traced(tensor)])
}

/// One output of integers that are known.
pub fn integers(shape: &[usize], data: Vec<f64>) -> Result<Vec<Value>> {
    Ok(vec![Value::known(Array::new(Type::new(DType::I32, shape), data))])
}
