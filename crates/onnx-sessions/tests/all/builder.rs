//! Writes models.

use std::path::{Path, PathBuf};

use lessen_base::SplitMix64;
use lessen_onnx::proto::{
    AttributeProto, AttributeType, Dimension, DimensionProto, GraphProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use prost::Message;

/// A model, with the fields that tests need.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(string, tag = "2")]
    pub producer_name: String,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// An extent of an input.
#[derive(Clone, Copy)]
pub enum Extent {
    Size(i64),
    Named(&'static str),
}

/// A model under construction.
pub struct Builder {
    pub graph: GraphProto,
    pub opset: i64,
    /// The version of the format.
    pub version: i64,
    random: SplitMix64,
}

pub const F32: i32 = 1;
pub const I64: i32 = 7;

impl Builder {
    pub fn new(opset: i64) -> Builder {
        Builder {
            graph: GraphProto::default(),
            opset,
            version: 8,
            random: SplitMix64::new(3),
        }
    }

    pub fn input(&mut self, name: &str, elem_type: i32, shape: &[Extent]) -> String {
        self.graph.input.push(value(name, elem_type, shape));
        name.to_string()
    }

    pub fn output(&mut self, name: &str) {
        self.graph.output.push(value(name, F32, &[]));
    }

    /// An initializer of random numbers around a mean.
    pub fn weight(&mut self, name: &str, shape: &[i64], mean: f64) -> String {
        let count: i64 = shape.iter().product();
        let data = (0..count).map(|_| (mean + self.random.unit() - 0.5) as f32).collect();
        self.floats(name, shape, data)
    }

    pub fn floats(&mut self, name: &str, shape: &[i64], data: Vec<f32>) -> String {
        self.graph.initializer.push(TensorProto {
            dims: shape.to_vec(),
            data_type: F32,
            name: name.to_string(),
            raw_data: data.iter().flat_map(|x| x.to_le_bytes()).collect(),
            ..TensorProto::default()
        });
        name.to_string()
    }

    pub fn integers(&mut self, name: &str, data: &[i64]) -> String {
        self.graph.initializer.push(TensorProto {
            dims: vec![data.len() as i64],
            data_type: I64,
            name: name.to_string(),
            int64_data: data.to_vec(),
            ..TensorProto::default()
        });
        name.to_string()
    }

    /// An initializer that is a truth value.
    pub fn truth(&mut self, name: &str, is_true: bool) {
        self.graph.initializer.push(TensorProto {
            data_type: 9,
            name: name.to_string(),
            int32_data: vec![i32::from(is_true)],
            ..TensorProto::default()
        });
    }

    /// Lists all initializers among the inputs.
    pub fn list_initializers(&mut self) {
        for tensor in &self.graph.initializer {
            let shape: Vec<Extent> = tensor.dims.iter().map(|extent| Extent::Size(*extent)).collect();
            self.graph.input.push(value(&tensor.name, tensor.data_type, &shape));
        }
    }

    /// Says the type of an output of the graph.
    pub fn declare(&mut self, name: &str, elem_type: i32, shape: &[Extent]) {
        self.graph.output.push(value(name, elem_type, shape));
    }

    /// A node with one output, which is called as the node.
    pub fn node(&mut self, op_type: &str, name: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        self.graph.node.push(NodeProto {
            input: inputs.iter().map(|input| input.to_string()).collect(),
            output: vec![name.to_string()],
            name: format!("{name}.node"),
            op_type: op_type.to_string(),
            attribute: attributes,
            ..NodeProto::default()
        });
        name.to_string()
    }

    pub fn norm(&mut self, name: &str, x: &str, width: i64) -> String {
        let gamma = self.weight(&format!("{name}.gamma"), &[width], 1.0);
        let beta = self.weight(&format!("{name}.beta"), &[width], 0.3);
        self.node(
            "LayerNormalization",
            name,
            &[x, &gamma, &beta],
            vec![float("epsilon", 1e-5)],
        )
    }

    pub fn linear(&mut self, name: &str, x: &str, from: i64, to: i64) -> String {
        let weight = self.weight(&format!("{name}.weight"), &[from, to], 0.1);
        let bias = self.weight(&format!("{name}.bias"), &[to], 0.2);
        let product = self.node("MatMul", &format!("{name}.product"), &[x, &weight], vec![]);
        self.node("Add", name, &[&product, &bias], vec![])
    }

    pub fn bytes(&self) -> Vec<u8> {
        let model = ModelProto {
            ir_version: self.version,
            producer_name: "test".to_string(),
            graph: Some(self.graph.clone()),
            opset_import: vec![OperatorSetIdProto {
                domain: String::new(),
                version: self.opset,
            }],
            metadata_props: vec![StringStringEntryProto {
                key: "kept".to_string(),
                value: "as it is".to_string(),
            }],
        };
        model.encode_to_vec()
    }

    pub fn write(&self, folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, self.bytes()).unwrap();
        path
    }
}

fn value(name: &str, elem_type: i32, shape: &[Extent]) -> ValueInfoProto {
    let dim = |extent: &Extent| DimensionProto {
        value: Some(match extent {
            Extent::Size(size) => Dimension::Value(*size),
            Extent::Named(name) => Dimension::Param(name.to_string()),
        }),
    };
    let shape = (!shape.is_empty()).then(|| TensorShapeProto {
        dim: shape.iter().map(dim).collect(),
    });
    ValueInfoProto {
        name: name.to_string(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto { elem_type, shape }),
            ..TypeProto::default()
        }),
    }
}

/// A graph of one node that reads names from around it, as an attribute: the name of the attribute and of the node, its
/// operator and inputs, and its output.
pub fn branch(name: &str, node: &str, (operator, inputs): (&str, &[&str]), output: &str) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Graph.into(),
        g: Some(GraphProto {
            node: vec![NodeProto {
                input: inputs.iter().map(|input| input.to_string()).collect(),
                output: vec![output.to_string()],
                name: node.to_string(),
                op_type: operator.to_string(),
                ..NodeProto::default()
            }],
            output: vec![ValueInfoProto {
                name: output.to_string(),
                ..ValueInfoProto::default()
            }],
            ..GraphProto::default()
        }),
        ..AttributeProto::default()
    }
}

pub fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Int.into(),
        i,
        ..AttributeProto::default()
    }
}

pub fn text(name: &str, text: &str) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::String.into(),
        s: text.into(),
        ..AttributeProto::default()
    }
}

pub fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Ints.into(),
        ints: ints.to_vec(),
        ..AttributeProto::default()
    }
}

pub fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Float.into(),
        f,
        ..AttributeProto::default()
    }
}

/// Two layers of a Pre-LN Transformer without attention, on sequences of a named length.
pub fn transformer(opset: i64) -> Builder {
    const WIDTH: i64 = 6;
    let mut b = Builder::new(opset);
    let ids = b.input("ids", I64, &[Extent::Named("batch"), Extent::Named("length")]);
    let words = b.weight("words", &[11, WIDTH], 0.4);
    let mut x = b.node("Gather", "embedded", &[&words, &ids], vec![]);
    for layer in ["a", "b"] {
        let h = b.norm(&format!("{layer}.norm"), &x, WIDTH);
        let h = b.linear(&format!("{layer}.in"), &h, WIDTH, 2 * WIDTH);
        let h = b.node("Tanh", &format!("{layer}.tanh"), &[&h], vec![]);
        let h = b.linear(&format!("{layer}.out"), &h, 2 * WIDTH, WIDTH);
        x = b.node("Add", &format!("{layer}.sum"), &[&x, &h], vec![]);
    }
    let h = b.norm("final", &x, WIDTH);
    b.linear("logits", &h, WIDTH, 5);
    b.output("logits");
    b
}
