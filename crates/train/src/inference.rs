//! Functions over a model's parameters that change none of them: evaluation, prediction, generation.

use crate::plans::{REMEDY, check_memory};
use lessen_base::{Error, Result};
use lessen_compile::{Options, Plan};
use lessen_cpu::{Device, Executable, Host, Store};
use lessen_graph::{InputKind, Tensor, Trace, Type};
use lessen_nn::{Context, ParamSpec, Weight, Weights};

/// Named arrays for the inputs of a graph.
pub type Inputs<'a> = [(&'a str, Host<'a>)];

/// A graph over the parameters of a [`Trainer`](crate::Trainer) or an [`Inference`].
pub struct Function {
    executable: Executable,
}

impl Function {
    /// Traces and compiles. States that `trace` declares beside the parameters begin as zeros.
    pub(crate) fn new(
        device: &Device,
        store: &mut Store,
        params: &[ParamSpec],
        trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
    ) -> Result<Function> {
        let graph = {
            let builder = Trace::new();
            let cx = Context::new(&builder, false);
            for (name, value) in trace(&cx) {
                builder.output(name, value);
            }
            for param in cx.params() {
                if !params
                    .iter()
                    .any(|known| known.name == param.name && known.shape == param.shape)
                {
                    let (name, shape) = (param.name, param.shape);
                    return Err(Error::user(format!(
                        "the model has no parameter `{name}` of shape {shape:?}"
                    )));
                }
            }
            drop(cx);
            builder.finish()
        };
        let options = Options { ..Options::default() };
        let plan = device.compile(&graph, &options)?;
        let states = || {
            plan.graph()
                .inputs
                .iter()
                .filter(|input| input.kind == InputKind::State)
        };
        let new = || states().filter(|input| !store.contains(&input.name));
        let new_bytes: usize = new().map(|input| plan.graph().ty(input.value).bytes()).sum();
        // The arena is shared with whatever else runs on the device.
        let more = plan.arena_bytes().saturating_sub(device.arena_bytes());
        check_memory(new_bytes + plan.constant_bytes() + more, REMEDY)?;
        let new: Vec<(String, Type)> = new()
            .map(|input| (input.name.clone(), plan.graph().ty(input.value).clone()))
            .collect();
        for (name, ty) in &new {
            store.insert_zeros(name, ty)?;
        }
        Ok(Function {
            executable: Executable::load(plan),
        })
    }

    pub(crate) fn run(&mut self, device: &mut Device, store: &mut Store, inputs: &Inputs<'_>) -> Result<()> {
        run(&mut self.executable, device, store, inputs)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        self.executable.plan()
    }

    /// A result of the last run, in row-major order.
    pub fn output(&self, name: &str) -> Option<&[f32]> {
        self.executable.output_f32(name)
    }
}

/// A model that is not trained: parameters and functions over them.
pub struct Inference {
    device: Device,
    store: Store,
    params: Vec<ParamSpec>,
}

impl Inference {
    /// A model with these parameters and their values.
    ///
    /// # Errors
    /// A value of a wrong shape.
    pub fn new(device: Device, params: Vec<ParamSpec>, weights: &Weights) -> Result<Inference> {
        let mut store = Store::new();
        for param in &params {
            store.insert_zeros(&param.name, &Type::f32(&param.shape))?;
        }
        write_weights(&mut store, &params, weights)?;
        Ok(Inference {
            device,
            store,
            params,
        })
    }

    /// As [`Trainer::function`](crate::Trainer::function). States that `trace` declares beside the parameters begin
    /// as zeros.
    ///
    /// # Errors
    /// A parameter that the model does not have, and a graph that the machine's memory cannot hold.
    pub fn function(
        &mut self,
        trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
    ) -> Result<Function> {
        Function::new(&self.device, &mut self.store, &self.params, trace)
    }

    /// Runs a function. `inputs` may hold more than it declared.
    ///
    /// # Errors
    /// An input that is missing or of another type than declared, an index out of range.
    pub fn run(&mut self, function: &mut Function, inputs: &Inputs<'_>) -> Result<()> {
        function.run(&mut self.device, &mut self.store, inputs)
    }
}

/// Whatever runs functions over parameters.
pub trait Runs {
    /// Runs a function. `inputs` may hold more than it declared.
    ///
    /// # Errors
    /// An input that is missing or of another type than declared, an index out of range.
    fn run_function(&mut self, function: &mut Function, inputs: &Inputs<'_>) -> Result<()>;
}

impl Runs for Inference {
    fn run_function(&mut self, function: &mut Function, inputs: &Inputs<'_>) -> Result<()> {
        self.run(function, inputs)
    }
}

pub(crate) fn run(
    executable: &mut Executable,
    device: &mut Device,
    store: &mut Store,
    inputs: &Inputs<'_>,
) -> Result<()> {
    executable
        .run(device, store, inputs)
        .map_err(|error| Error::user(error.to_string()))
}

/// A scalar result of the last run.
pub(crate) fn scalar(executable: &Executable, name: &str) -> Option<f32> {
    executable.output_f32(name)?.first().copied()
}

pub(crate) fn read_weights(store: &Store, params: &[ParamSpec]) -> Weights {
    let weight = |param: &ParamSpec| {
        let data = store.f32(&param.name)?.to_vec();
        Some((
            param.name.clone(),
            Weight {
                shape: param.shape.clone(),
                data,
            },
        ))
    };
    params.iter().filter_map(weight).collect()
}

pub(crate) fn write_weights(store: &mut Store, params: &[ParamSpec], weights: &Weights) -> Result<()> {
    for (name, weight) in weights {
        let param = params.iter().find(|param| param.name == *name);
        let (shape, length) = (&weight.shape, weight.data.len());
        match (param, store.f32_mut(name)) {
            (Some(param), Some(data)) if param.shape == *shape && data.len() == length => {
                data.copy_from_slice(&weight.data);
            }
            _ => {
                return Err(Error::user(format!(
                    "the model has no parameter `{name}` of shape {shape:?}"
                )));
            }
        }
    }
    Ok(())
}
