//! Operators that move elements, in the types of files; what is right follows from their definitions.

mod indexing;
mod layout;
mod texts;

use std::sync::Arc;

use lessen_cpu::CpuBackend;
use lessen_onnx::proto::{
    AttributeProto, AttributeType, NodeProto, OperatorSetIdProto, TensorProto, TensorTypeProto, TypeProto,
    ValueInfoProto,
};
use lessen_onnx::{Data, HostTensor, HostValue, Model};
use lessen_onnx_sessions::Session;
use prost::Message;

use crate::builder::{Builder, ModelProto};

/// A node, its inputs and its outputs.
pub(super) struct Case {
    op_type: &'static str,
    opset: i64,
    attributes: Vec<AttributeProto>,
    inputs: Vec<Option<HostTensor>>,
    outputs: Vec<HostTensor>,
}

/// A node of the newest version.
pub(super) fn node(op_type: &'static str, inputs: Vec<HostTensor>, attributes: Vec<AttributeProto>) -> Case {
    Case {
        op_type,
        opset: 23,
        attributes,
        inputs: inputs.into_iter().map(Some).collect(),
        outputs: Vec::new(),
    }
}

impl Case {
    pub(super) fn gives(mut self, outputs: Vec<HostTensor>) -> Case {
        self.outputs = outputs;
        self
    }

    pub(super) fn of_opset(mut self, opset: i64) -> Case {
        self.opset = opset;
        self
    }

    /// The outputs, `count` of them.
    pub(super) fn run(&self, count: usize) -> lessen_base::Result<Vec<HostTensor>> {
        let mut b = Builder::new(self.opset);
        let mut given = Vec::new();
        let mut names = Vec::new();
        for (i, input) in self.inputs.iter().enumerate() {
            let name = input.as_ref().map_or(String::new(), |_| format!("x{i}"));
            if let Some(input) = input {
                b.graph
                    .input
                    .push(value(&name, input.element().map_or(8, |e| e.data_type())));
                given.push((name.clone(), HostValue::from(input.clone())));
            }
            names.push(name);
        }
        let (domain, op_type) = self.op_type.rsplit_once(':').unwrap_or(("", self.op_type));
        let outputs: Vec<String> = (0..count).map(|i| format!("y{i}")).collect();
        b.graph.node.push(NodeProto {
            input: names,
            output: outputs.clone(),
            op_type: op_type.to_string(),
            domain: domain.to_string(),
            attribute: self.attributes.clone(),
            ..NodeProto::default()
        });
        for (i, name) in outputs.iter().enumerate() {
            let element = self.outputs.get(i).and_then(HostTensor::element);
            b.graph
                .output
                .push(value(name, element.map_or(8, |element| element.data_type())));
        }
        let outputs = run(&b, domain, given)?;
        Ok(outputs
            .iter()
            .map(|value| HostTensor::clone(value.tensor().unwrap()))
            .collect())
    }
}

pub(super) fn value(name: &str, elem_type: i32) -> ValueInfoProto {
    let tensor_type = TensorTypeProto { elem_type, shape: None };
    ValueInfoProto {
        name: name.to_string(),
        r#type: Some(TypeProto {
            tensor_type: Some(tensor_type),
            ..TypeProto::default()
        }),
    }
}

/// The outputs of a model that also reads operators of a domain.
pub(super) fn run(b: &Builder, domain: &str, inputs: Vec<(String, HostValue)>) -> lessen_base::Result<Vec<HostValue>> {
    let mut model = ModelProto::decode(&b.bytes()[..]).unwrap();
    if !domain.is_empty() {
        model.opset_import.push(OperatorSetIdProto {
            domain: domain.to_string(),
            version: 5,
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, model.encode_to_vec()).unwrap();
    let session = Session::new(Arc::new(Model::open(&path)?), Box::new(CpuBackend::new(1)?))?;
    Ok(session.run(inputs)?.into_iter().map(|(_, value)| value).collect())
}

pub(super) fn array<T>(shape: &[usize], data: Vec<T>) -> HostTensor
where
    Data: From<Vec<T>>,
{
    HostTensor::new(shape, data).unwrap()
}

pub(super) fn list<T: Clone>(data: &[T]) -> HostTensor
where
    Data: From<Vec<T>>,
{
    HostTensor::vector(data.to_vec())
}

pub(super) fn texts(shape: &[usize], data: &[&str]) -> HostTensor {
    array(shape, data.iter().map(|text| text.to_string()).collect::<Vec<String>>())
}

pub(super) fn text(name: &str, s: &str) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::String.into(),
        s: s.as_bytes().to_vec(),
        ..AttributeProto::default()
    }
}

pub(super) fn list_of_texts(name: &str, all: &[&str]) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Strings.into(),
        strings: all.iter().map(|text| text.as_bytes().to_vec()).collect(),
        ..AttributeProto::default()
    }
}

/// An attribute that is a tensor of one 64-bit integer.
pub(super) fn tensor(name: &str, number: i64) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Tensor.into(),
        t: Some(TensorProto {
            dims: vec![1],
            data_type: 7,
            int64_data: vec![number],
            ..TensorProto::default()
        }),
        ..AttributeProto::default()
    }
}

pub(super) fn check(cases: Vec<Case>) {
    for case in cases {
        let found = case
            .run(case.outputs.len())
            .unwrap_or_else(|why| panic!("{}: {why}", case.op_type));
        let shown = |all: &[HostTensor]| format!("{all:?}");
        // Texts are compared, since NaN is not equal to itself.
        assert_eq!(shown(&found), shown(&case.outputs), "{}", case.op_type);
    }
}

pub(super) fn six() -> HostTensor {
    array(&[2, 3], vec![1i64, 2, 3, 4, 5, 6])
}
