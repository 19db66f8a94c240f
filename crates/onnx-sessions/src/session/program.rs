//! A part of a model as a compiled program with states of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lessen_base::{Error, Result};
use lessen_compile::Options;
use lessen_device::{Backend, Host, HostArray, ModelId, ProgramId};
use lessen_graph::{Array, DType, Graph, InputKind, Type};

use super::scope::Scope;
use super::upload::{upload_array, upload_tensor};
use lessen_onnx::Element;
use lessen_onnx::Model;
use lessen_onnx::host::{Data, HostTensor, HostValue};

/// Where the elements of a program's state come from.
#[derive(Clone, Debug)]
pub(super) enum StateSource {
    /// An initializer of the file.
    Initializer(String),
    /// An array that was computed.
    Computed(Arc<HostTensor>),
}

/// A part of a model that is traced.
pub(super) struct Part {
    pub graph: Graph,
    /// Large constants that were made while it was traced.
    pub constants: HashMap<String, Arc<Array>>,
    /// The other states.
    pub states: HashMap<String, StateSource>,
    /// Names of values that it gives, each with its type in the file.
    pub outputs: Vec<(String, Element)>,
}

/// A program on the device.
pub(super) struct Program {
    model: ModelId,
    program: ProgramId,
    /// Names and types of its inputs.
    inputs: Vec<(String, Type)>,
    /// Names of its outputs with their types in the file and their extents.
    outputs: Vec<(String, Element, Vec<usize>)>,
    /// The graph that was compiled.
    pub graph: Graph,
}

impl Program {
    /// Compiles a part and loads it with its states.
    ///
    /// # Errors
    /// Memory that the device does not have, a file that cannot be read.
    pub(super) fn load<B: Backend + ?Sized>(backend: &mut B, model: &Model, part: Part) -> Result<(Program, Duration)> {
        let begun = Instant::now();
        let graph = lessen_rewrite::recognize(&part.graph, &part.constants);
        let plan = lessen_compile::compile(&graph, &Options::default(), backend.target())?;
        backend.memory().check(plan.peak_bytes())?;
        let id = backend.add_model();
        let program = backend.load(id, plan)?;
        let time = begun.elapsed();
        let loaded = Program {
            model: id,
            program,
            inputs: of_kind(&graph, InputKind::Data),
            outputs: outputs(&graph, &part.outputs),
            graph,
        };
        let states = of_kind(&loaded.graph, InputKind::State);
        let filled = loaded.fill(backend, model, &part, states);
        match filled {
            Ok(()) => Ok((loaded, time)),
            Err(error) => {
                loaded.unload(backend);
                Err(error)
            }
        }
    }

    /// Gives the states their elements.
    fn fill<B: Backend + ?Sized>(
        &self,
        backend: &mut B,
        model: &Model,
        part: &Part,
        states: Vec<(String, Type)>,
    ) -> Result<()> {
        for (name, ty) in states {
            backend.allocate(self.model, &name, &ty)?;
            if let Some(array) = part.constants.get(&name) {
                upload_array((backend, self.model), &name, ty.dtype, array)?;
                continue;
            }
            match part.states.get(&name) {
                Some(StateSource::Initializer(initializer)) => {
                    let Some(tensor) = model.initializers.get(initializer) else {
                        return Err(Error::internal(format!("the state `{name}` has no elements")));
                    };
                    upload_tensor((backend, self.model), (model, tensor), &name, ty.dtype)?;
                }
                Some(StateSource::Computed(tensor)) => {
                    let on_device = match tensor.data() {
                        Data::U8(codes) if ty.dtype == DType::U8 => OnDevice::Borrowed(Host::U8(codes)),
                        _ => OnDevice::of(tensor, &name)?,
                    };
                    backend.upload(self.model, &name, on_device.host())?;
                }
                None => return Err(Error::internal(format!("the state `{name}` has no elements"))),
            }
        }
        backend.freeze(self.program)
    }

    /// The program on its device.
    pub(super) fn id(&self) -> ProgramId {
        self.program
    }

    /// Removes the program and its states from the device.
    pub(super) fn unload<B: Backend + ?Sized>(&self, backend: &mut B) {
        backend.remove_model(self.model);
    }

    /// Computes the outputs from values of a scope.
    ///
    /// # Errors
    /// An integer that is too large for an index, an index out of range.
    pub(super) fn run<B: Backend + ?Sized>(&self, backend: &mut B, scope: &Scope<'_>) -> Result<()> {
        let mut given = Vec::with_capacity(self.inputs.len());
        for (name, _) in &self.inputs {
            let value = scope.get(name)?;
            let Some(tensor) = value.tensor().cloned() else {
                return Err(Error::internal(format!("`{name}` is no array")));
            };
            given.push((name.as_str(), tensor));
        }
        let mut on_device = Vec::with_capacity(given.len());
        for (name, tensor) in &given {
            on_device.push((*name, OnDevice::of(tensor, name)?));
        }
        let data: Vec<(&str, Host<'_>)> = on_device.iter().map(|(name, data)| (*name, data.host())).collect();
        backend.run(self.program, &data)?;
        for (name, element, shape) in &self.outputs {
            let Some(output) = backend.output(self.program, name) else {
                return Err(Error::internal(format!("the program has no output `{name}`")));
            };
            scope.set(name, HostValue::from(from_device(&output, *element, shape)?));
        }
        Ok(())
    }
}

/// Names and types of a graph's inputs of a kind.
fn of_kind(graph: &Graph, kind: InputKind) -> Vec<(String, Type)> {
    let inputs = graph.inputs.iter().filter(|input| input.kind == kind);
    inputs
        .map(|input| (input.name.clone(), graph.ty(input.value).clone()))
        .collect()
}

fn outputs(graph: &Graph, elements: &[(String, Element)]) -> Vec<(String, Element, Vec<usize>)> {
    let of = |(name, element): &(String, Element)| {
        let output = graph.outputs.iter().find(|output| output.name == *name)?;
        Some((name.clone(), *element, graph.ty(output.value).shape.to_vec()))
    };
    elements.iter().filter_map(of).collect()
}

/// The elements of an array as a device takes them.
enum OnDevice<'a> {
    Borrowed(Host<'a>),
    Integers(Vec<i32>),
    Truths(Vec<u8>),
    Floats(Vec<f32>),
}

impl<'a> OnDevice<'a> {
    /// Elements of floats of 16 bits as such of 32, integers as such of 32 bits.
    fn of(tensor: &'a HostTensor, name: &str) -> Result<OnDevice<'a>> {
        Ok(match tensor.data() {
            Data::F32(v) => OnDevice::Borrowed(Host::F32(v)),
            Data::F64(v) => OnDevice::Borrowed(Host::F64(v)),
            Data::I32(v) => OnDevice::Borrowed(Host::I32(v)),
            Data::Bool(v) => OnDevice::Truths(v.iter().map(|x| u8::from(*x)).collect()),
            Data::F16(v) => OnDevice::Floats(v.iter().map(|x| x.to_f32()).collect()),
            Data::BF16(v) => OnDevice::Floats(v.iter().map(|x| x.to_f32()).collect()),
            _ => {
                let integers = tensor.integers().unwrap_or_default();
                let narrow: Option<Vec<i32>> = integers.iter().map(|x| i32::try_from(*x).ok()).collect();
                OnDevice::Integers(narrow.ok_or_else(|| {
                    Error::user(format!(
                        "the value `{name}` has an integer beyond 32 bits, which is no index of any array"
                    ))
                })?)
            }
        })
    }

    fn host(&self) -> Host<'_> {
        match self {
            OnDevice::Borrowed(host) => *host,
            OnDevice::Integers(v) => Host::I32(v),
            OnDevice::Truths(v) => Host::Bool(v),
            OnDevice::Floats(v) => Host::F32(v),
        }
    }
}

/// A result of a device as an array of the type that the file says.
fn from_device(output: &HostArray, element: Element, shape: &[usize]) -> Result<HostTensor> {
    let host = output.host();
    match (host, element) {
        (Host::F32(v), Element::F32) => HostTensor::new(shape, v.to_vec()),
        (Host::F64(v), Element::F64) => HostTensor::new(shape, v.to_vec()),
        (Host::Bool(v), Element::Bool) => HostTensor::new(shape, v.iter().map(|x| *x != 0).collect::<Vec<bool>>()),
        // Codes of integers with a sign are 128 more.
        (Host::U8(v), Element::Int(1)) => {
            HostTensor::new(shape, v.iter().map(|code| (*code ^ 0x80) as i8).collect::<Vec<i8>>())
        }
        _ => HostTensor::new(shape, Data::of_f64(element, host.elements())),
    }
}

/// Whether a type of a file can be one of a program.
pub(super) fn is_float_of_programs(element: Element) -> bool {
    matches!(element.dtype(), DType::F32 | DType::F64)
}
