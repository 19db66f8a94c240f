//! Models whose nodes a session runs as one program, beside the same nodes computed in memory.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_base::SplitMix64;
use lessen_cpu::CpuBackend;
use lessen_onnx::proto::{AttributeProto, AttributeType, NodeProto};
use lessen_onnx::{Data, HostTensor, HostValue, Model};
use lessen_onnx_sessions::{Session, run_node};

use crate::builder::{Builder, Extent, F32};

const OPSET: i64 = 21;

/// A model of nodes and initializers, of which nodes may be called by the contributed domain.
pub struct Case {
    pub builder: Builder,
    initializers: HashMap<String, HostTensor>,
    random: SplitMix64,
}

impl Case {
    pub fn new() -> Case {
        Case {
            builder: Builder::new(OPSET),
            initializers: HashMap::new(),
            random: SplitMix64::new(7),
        }
    }

    pub fn with(&mut self, name: &str, tensor: HostTensor) -> &mut Case {
        self.builder.graph.initializer.push(tensor.to_message(name));
        self.initializers.insert(name.to_string(), tensor);
        self
    }

    /// Integers over the whole range, or, in bytes, less of it.
    pub fn integers(&mut self, name: &str, shape: &[usize], is_signed: bool) -> &mut Case {
        let count = shape.iter().product();
        let bytes: Vec<u8> = (0..count).map(|_| (self.random.unit() * 256.0) as u8).collect();
        let data: Data = if is_signed {
            bytes.iter().map(|byte| *byte as i8).collect::<Vec<i8>>().into()
        } else {
            bytes.iter().map(|byte| 40 + byte / 2).collect::<Vec<u8>>().into()
        };
        self.with(name, HostTensor::new(shape, data).unwrap())
    }

    pub fn scales(&mut self, name: &str, count: usize) -> &mut Case {
        let scales: Vec<f32> = (0..count).map(|_| 0.003 + self.random.unit() as f32 / 50.0).collect();
        self.with(name, HostTensor::new(&[count], scales).unwrap())
    }

    pub fn node(
        &mut self,
        domain: &str,
        op_type: &str,
        inputs: &[&str],
        outputs: &[&str],
        attribute: Vec<AttributeProto>,
    ) -> &mut Case {
        self.builder.graph.node.push(NodeProto {
            input: inputs.iter().map(|name| name.to_string()).collect(),
            output: outputs.iter().map(|name| name.to_string()).collect(),
            op_type: op_type.to_string(),
            domain: domain.to_string(),
            attribute,
            ..NodeProto::default()
        });
        self
    }

    /// Declares the input `x` of this shape, and the outputs.
    pub fn declare(&mut self, shape: &[usize], outputs: &[&str]) {
        let extents: Vec<Extent> = shape.iter().map(|extent| Extent::Size(*extent as i64)).collect();
        self.builder.input("x", F32, &extents);
        outputs.iter().for_each(|name| self.builder.output(name));
    }

    /// Runs it as a session and node by node. Returns the largest difference of floats; integers are compared to the
    /// bit. All of it has to be one program.
    pub fn check(mut self, shape: &[usize], outputs: &[&str]) -> f64 {
        self.declare(shape, outputs);
        let x: Vec<f32> = (0..shape.iter().product())
            .map(|_| (self.random.unit() * 4.0 - 1.7) as f32)
            .collect();
        let x = HostValue::from(HostTensor::new(shape, x).unwrap());
        let mut values: HashMap<String, HostValue> = HashMap::from([("x".to_string(), x.clone())]);
        values.extend(
            self.initializers
                .into_iter()
                .map(|(name, tensor)| (name, tensor.into())),
        );
        for node in &self.builder.graph.node {
            let inputs = node.input.iter().map(|name| values.get(name).cloned()).collect();
            let results = run_node(node, OPSET, inputs).unwrap();
            values.extend(node.output.iter().cloned().zip(results));
        }
        let folder = tempfile::tempdir().unwrap();
        let model = Model::open_to_run(&self.builder.write(folder.path(), "model.onnx")).unwrap();
        let session = Session::new(Arc::new(model), Box::new(CpuBackend::new(2).unwrap())).unwrap();
        let mut difference = 0.0f64;
        for _ in 0..2 {
            let found = session.run(vec![("x".to_string(), x.clone())]).unwrap();
            assert_eq!(found.len(), outputs.len());
            for (name, value) in found {
                let (found, expected) = (value.tensor().unwrap(), values[&name].tensor().unwrap());
                assert_eq!(found.element(), expected.element(), "{name}");
                assert_eq!(found.shape(), expected.shape(), "{name}");
                if let Data::F32(expected) = expected.data() {
                    let all = found.data().to_f64().into_iter().zip(expected);
                    difference = all.fold(difference, |most, (a, b)| most.max((a - f64::from(*b)).abs()));
                } else {
                    assert!(found == expected, "{name} differs");
                }
            }
        }
        assert_eq!(session.with_programs(|_, programs| programs.len()), 1);
        difference
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

pub fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Int.into(),
        i,
        ..AttributeProto::default()
    }
}

/// A scale and zero points of both types.
pub fn with_grain(case: &mut Case) {
    case.with("s", HostTensor::scalar(0.02f32))
        .with("t", HostTensor::scalar(0.05f32))
        .with("zu", HostTensor::scalar(77u8))
        .with("zi", HostTensor::scalar(-9i8))
        .with("z0", HostTensor::scalar(0i8));
}
