//! Running two models on the same random inputs.

use std::collections::HashMap;

use lessen_base::{Error, Result};
use lessen_compile::Options;
use lessen_device::{Backend, Host, HostArray, random_inputs};
use lessen_graph::{Array, DType, Graph, InputKind, Type, evaluate_exactly};
use lessen_nn::Weights;
use lessen_task::device::NewBackend;

/// How both models are compared.
pub struct Check<'a> {
    /// The seed of random inputs.
    pub seed: u64,
    /// Opens a device, for large models.
    pub device: &'a NewBackend,
}

/// What the models of a comparison read, and how they are computed.
pub(super) struct Comparison<'a> {
    device: &'a NewBackend,
    data: Vec<(String, Array)>,
    dtype: DType,
}

impl<'a> Check<'a> {
    /// A comparison with this model: small ones are computed in `f64`, large ones on a device in `f32`.
    pub(super) fn comparison(&self, graph: &Graph, weights: &Weights) -> Comparison<'a> {
        /// Models of more elements take too long in `f64`.
        const MOST: usize = 1 << 24;
        let elements: usize = weights.values().map(|weight| weight.data.len()).sum();
        Comparison {
            device: self.device,
            data: random_inputs(graph, self.seed),
            dtype: if elements <= MOST { DType::F64 } else { DType::F32 },
        }
    }
}

impl Comparison<'_> {
    /// The logits of a graph with its weights.
    pub(super) fn logits(&self, graph: &Graph, weights: &Weights) -> Result<Vec<f64>> {
        match self.dtype {
            DType::F64 => exactly(graph, weights, &self.data),
            _ => on_device(self.device.open()?, graph, weights, &self.data),
        }
    }

    /// The largest difference of two models' logits, over the largest logit, and the dtype in which both were computed.
    pub(super) fn difference(&self, one: &[f64], other: &[f64]) -> (f64, DType) {
        let largest = one.iter().fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
        let apart = one.iter().zip(other).map(|(a, b)| (a - b).abs() / largest);
        (apart.fold(0.0, f64::max), self.dtype)
    }
}

fn exactly(graph: &Graph, weights: &Weights, data: &[(String, Array)]) -> Result<Vec<f64>> {
    let mut given: HashMap<String, Array> = data.iter().cloned().collect();
    for input in graph.inputs.iter().filter(|input| input.kind == InputKind::State) {
        let numbers = weights[&input.name].data.iter().map(|x| f64::from(*x)).collect();
        let ty = graph.ty(input.value).clone();
        given.insert(input.name.clone(), Array::new(ty, numbers));
    }
    let mut results = evaluate_exactly(graph, &given)?;
    Ok(results.remove("logits").map_or_else(Vec::new, |array| array.data))
}

fn on_device(
    mut backend: Box<dyn Backend>,
    graph: &Graph,
    weights: &Weights,
    data: &[(String, Array)],
) -> Result<Vec<f64>> {
    let plan = backend.compile(graph, &Options::default())?;
    let model = backend.add_model();
    for input in graph.inputs.iter().filter(|input| input.kind == InputKind::State) {
        let weight = &weights[&input.name];
        backend.allocate(model, &input.name, &Type::f32(&weight.shape))?;
        backend.upload(model, &input.name, Host::F32(&weight.data))?;
    }
    let program = backend.load(model, plan)?;
    let held: Vec<(&str, HostArray)> = data
        .iter()
        .map(|(name, array)| (name.as_str(), HostArray::of(array.ty.dtype, &array.data)))
        .collect();
    let inputs: Vec<(&str, Host<'_>)> = held.iter().map(|(name, array)| (*name, array.host())).collect();
    backend.run(program, &inputs)?;
    let logits = backend.output(program, "logits");
    match logits.as_ref().and_then(|logits| logits.as_f32()) {
        Some(logits) => Ok(logits.iter().map(|x| f64::from(*x)).collect()),
        _ => Err(Error::internal("a model has no logits")),
    }
}
