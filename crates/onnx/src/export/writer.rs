//! The nodes and initializers of a file under construction.

use std::collections::{HashMap, HashSet};

use lessen_graph::{Array, DType};

use crate::proto::{AttributeProto, AttributeType, NodeProto};

/// The elements of an initializer.
pub(super) enum Elements {
    /// Bytes in little-endian order.
    Held(Vec<u8>),
    /// A parameter of the model, read when it is written.
    Parameter {
        name: String,
        /// Whether the matrix is stored transposed.
        transposed: bool,
    },
}

/// A tensor that a file holds.
pub(super) struct Initializer {
    pub name: String,
    pub shape: Vec<usize>,
    pub element: i32,
    pub elements: Elements,
}

/// The numbers of element types in the schema of ONNX.
pub(super) mod element {
    pub(in crate::export) const FLOAT: i32 = 1;
    pub(in crate::export) const INT64: i32 = 7;
    pub(in crate::export) const BOOL: i32 = 9;
    pub(in crate::export) const HALF: i32 = 10;
    pub(in crate::export) const DOUBLE: i32 = 11;
}

/// The element type for a dtype of a graph, and the bytes of an element; integers become `int64`.
pub(super) fn element_of(dtype: DType) -> Option<(i32, usize)> {
    match dtype {
        DType::F32 => Some((element::FLOAT, 4)),
        DType::I32 => Some((element::INT64, 8)),
        DType::Bool => Some((element::BOOL, 1)),
        DType::F64 => Some((element::DOUBLE, 8)),
        DType::BF16 | DType::U32 | DType::U8 => None,
    }
}

/// A file under construction.
#[derive(Default)]
pub(super) struct Writer {
    pub nodes: Vec<NodeProto>,
    pub initializers: Vec<Initializer>,
    names: HashSet<String>,
    counts: HashMap<String, usize>,
    /// Constants that were written, by type, shape and bytes.
    constants: HashMap<(i32, Vec<usize>, Vec<u8>), String>,
    /// The part of the model that nodes belong to.
    scope: String,
}

impl Writer {
    /// Reserves the name of an input or output.
    pub(super) fn reserve(&mut self, name: &str) {
        self.names.insert(name.to_string());
    }

    /// Sets the part of the model that the next nodes belong to.
    pub(super) fn enter(&mut self, scope: &str) {
        self.scope = scope.replace('.', "/");
    }

    /// A name that nothing has.
    fn fresh(&mut self, wanted: &str) -> String {
        let count = self.counts.entry(wanted.to_string()).or_default();
        loop {
            let name = match *count {
                0 => wanted.to_string(),
                count => format!("{wanted}_{count}"),
            };
            *count += 1;
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }

    /// Adds a node and returns the names of its outputs.
    pub(super) fn node(
        &mut self,
        op_type: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
        outputs: usize,
    ) -> Vec<String> {
        let place = if self.scope.is_empty() {
            format!("/{op_type}")
        } else {
            format!("/{}/{op_type}", self.scope)
        };
        let name = self.fresh(&place);
        let output: Vec<String> = (0..outputs)
            .map(|i| self.fresh(&format!("{name}_output_{i}")))
            .collect();
        self.nodes.push(NodeProto {
            input: inputs.iter().map(ToString::to_string).collect(),
            output: output.clone(),
            name,
            op_type: op_type.to_string(),
            attribute: attributes,
            ..NodeProto::default()
        });
        output
    }

    /// Adds a node with one output and returns its name.
    pub(super) fn one(&mut self, op_type: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        self.node(op_type, inputs, attributes, 1).swap_remove(0)
    }

    /// The name of a parameter's initializer.
    pub(super) fn parameter(&mut self, name: &str, shape: &[usize], transposed: bool) -> String {
        let wanted = if transposed {
            format!("{name}.transposed")
        } else {
            name.to_string()
        };
        let own = self.fresh(&wanted);
        let shape = if transposed {
            shape.iter().rev().copied().collect()
        } else {
            shape.to_vec()
        };
        self.initializers.push(Initializer {
            name: own.clone(),
            shape,
            element: element::FLOAT,
            elements: Elements::Parameter {
                name: name.to_string(),
                transposed,
            },
        });
        own
    }

    /// The name of a constant of whole numbers, `int64[..]`.
    pub(super) fn ints(&mut self, numbers: &[i64]) -> String {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(element::INT64, vec![numbers.len()], bytes, "indices")
    }

    /// The name of a constant without axes.
    pub(super) fn scalar(&mut self, dtype: DType, number: f64) -> Option<String> {
        self.array(&Array::full(lessen_graph::Type::new(dtype, &[]), number), "number")
    }

    /// The name of a constant array; none where ONNX has no such dtype here.
    pub(super) fn array(&mut self, array: &Array, wanted: &str) -> Option<String> {
        let (element, bytes) = element_of(array.ty.dtype)?;
        let mut data = Vec::with_capacity(array.data.len() * bytes);
        for number in &array.data {
            match array.ty.dtype {
                DType::F32 => data.extend((*number as f32).to_le_bytes()),
                DType::F64 => data.extend(number.to_le_bytes()),
                DType::Bool => data.push(u8::from(*number != 0.0)),
                _ => data.extend((*number as i64).to_le_bytes()),
            }
        }
        Some(self.constant(element, array.ty.shape.to_vec(), data, wanted))
    }

    fn constant(&mut self, element: i32, shape: Vec<usize>, bytes: Vec<u8>, wanted: &str) -> String {
        let key = (element, shape, bytes);
        if let Some(name) = self.constants.get(&key) {
            return name.clone();
        }
        let name = self.fresh(wanted);
        self.initializers.push(Initializer {
            name: name.clone(),
            shape: key.1.clone(),
            element,
            elements: Elements::Held(key.2.clone()),
        });
        self.constants.insert(key, name.clone());
        name
    }

    /// Gives values the names of outputs, and removes nodes and initializers that no output depends on.
    pub(super) fn finish(&mut self, outputs: &[(String, String)]) {
        let produced: HashSet<&String> = self.nodes.iter().flat_map(|node| &node.output).collect();
        let mut renamed: HashMap<String, String> = HashMap::new();
        let mut copies = Vec::new();
        for (value, name) in outputs {
            if produced.contains(value) && !renamed.contains_key(value) {
                renamed.insert(value.clone(), name.clone());
            } else {
                copies.push((value.clone(), name.clone()));
            }
        }
        for (value, name) in copies {
            self.nodes.push(NodeProto {
                input: vec![value],
                output: vec![name.clone()],
                name: format!("/{name}/Identity"),
                op_type: "Identity".to_string(),
                ..NodeProto::default()
            });
        }
        for name in self
            .nodes
            .iter_mut()
            .flat_map(|node| node.input.iter_mut().chain(&mut node.output))
        {
            if let Some(new) = renamed.get(name) {
                name.clone_from(new);
            }
        }
        let mut needed: HashSet<String> = outputs.iter().map(|(_, name)| name.clone()).collect();
        let mut kept: Vec<NodeProto> = Vec::with_capacity(self.nodes.len());
        for mut node in std::mem::take(&mut self.nodes).into_iter().rev() {
            if node.output.iter().any(|name| needed.contains(name)) {
                // An output that nothing reads, such as the statistics of a norm, is not asked for.
                while node.output.len() > 1
                    && node.output.last().is_some_and(|name| !needed.contains(name))
                    && node.op_type != "Split"
                {
                    node.output.pop();
                }
                needed.extend(node.input.iter().cloned());
                kept.push(node);
            }
        }
        kept.reverse();
        self.nodes = kept;
        self.initializers
            .retain(|initializer| needed.contains(&initializer.name));
    }
}

/// An attribute that is a whole number.
pub(super) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        i: value,
        ..attribute(name, AttributeType::Int)
    }
}

/// An attribute of whole numbers.
pub(super) fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        ints: values.to_vec(),
        ..attribute(name, AttributeType::Ints)
    }
}

/// An attribute that is a number.
pub(super) fn float(name: &str, value: f64) -> AttributeProto {
    AttributeProto {
        f: value as f32,
        ..attribute(name, AttributeType::Float)
    }
}

/// An attribute that is a text.
pub(super) fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        s: value.as_bytes().to_vec(),
        ..attribute(name, AttributeType::String)
    }
}

fn attribute(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: kind.into(),
        ..AttributeProto::default()
    }
}
