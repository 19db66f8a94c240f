//! Runs a model on a device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lessen_base::{Error, Result};
use lessen_compile::{Options, Plan};
use lessen_device::{Backend, Host, HostArray, ModelId, ProgramId};
use lessen_graph::{Array, DType, InputKind, Type};

use crate::import::{Imported, Sizes};
use crate::model::Model;
use crate::tensor::Tensor;

/// A model that a device has loaded, for inputs of some sizes.
pub struct Executable<B: Backend + ?Sized = dyn Backend> {
    backend: Box<B>,
    model: ModelId,
    program: ProgramId,
    compile_time: Duration,
    /// Names and types of the inputs.
    inputs: Vec<(String, Type)>,
    /// Names and types of the outputs.
    outputs: Vec<(String, Type)>,
}

/// Elements that are copied to the device at once.
const BLOCK: usize = 1 << 18;

impl<B: Backend + ?Sized> Executable<B> {
    /// Compiles a model for inputs of the sizes in `sizes` and loads it with its parameters, which are read block by
    /// block.
    ///
    /// # Errors
    /// A model with a node that is not known; a file that cannot be read; memory that the device does not have.
    pub fn load(mut backend: Box<B>, model: &Model, sizes: &Sizes) -> Result<Executable<B>> {
        let begun = Instant::now();
        let imported = Imported::of(model, sizes)?;
        if let Some((node, why)) = imported.opaque.first() {
            let node = model.nodes[*node].shown();
            let sentence = format!("the node {node} cannot be run, since {why}");
            return Err(model.error(&sentence));
        }
        let graph = lessen_rewrite::recognize(&imported.graph, &imported.constants);
        let plan = lessen_compile::compile(&graph, &Options::default(), backend.target())?;
        backend.memory().check(plan.peak_bytes())?;
        let id = backend.add_model();
        let program = backend.load(id, plan)?;
        let compile_time = begun.elapsed();
        for input in graph.inputs.iter().filter(|input| input.kind == InputKind::State) {
            let ty = graph.ty(input.value);
            backend.allocate(id, &input.name, ty)?;
            upload((backend.as_mut(), id), model, &imported, &input.name, ty)?;
        }
        backend.freeze(program)?;
        let inputs = graph.inputs.iter().filter(|input| input.kind == InputKind::Data);
        let inputs = inputs.map(|input| (input.name.clone(), graph.ty(input.value).clone()));
        let outputs = graph
            .outputs
            .iter()
            .map(|output| (output.name.clone(), graph.ty(output.value).clone()));
        Ok(Executable {
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            backend,
            model: id,
            program,
            compile_time,
        })
    }

    /// The device.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// The device.
    pub fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    /// The model's states on the device.
    pub fn model(&self) -> ModelId {
        self.model
    }

    /// The program that the device has loaded.
    pub fn program(&self) -> ProgramId {
        self.program
    }

    /// The plan of the model.
    pub fn plan(&self) -> Arc<Plan> {
        self.backend.plan(self.program)
    }

    /// How long it took from the model's nodes to kernels, without its parameters.
    pub fn compile_time(&self) -> Duration {
        self.compile_time
    }

    /// Names and types of the inputs.
    pub fn inputs(&self) -> &[(String, Type)] {
        &self.inputs
    }

    /// Names and types of the outputs.
    pub fn outputs(&self) -> &[(String, Type)] {
        &self.outputs
    }

    /// Runs the model.
    ///
    /// # Errors
    /// An input that is missing or of another type, an index out of range.
    pub fn run(&mut self, inputs: &[(&str, Host<'_>)]) -> Result<()> {
        self.backend.run(self.program, inputs)
    }

    /// An output of the last run.
    pub fn output(&self, name: &str) -> Option<Arc<HostArray>> {
        self.backend.output(self.program, name)
    }
}

/// Copies a parameter to the device.
fn upload<B: Backend + ?Sized>(
    (backend, id): (&mut B, ModelId),
    model: &Model,
    imported: &Imported,
    name: &str,
    ty: &Type,
) -> Result<()> {
    if let Some(array) = imported.constants.get(name) {
        return upload_array((backend, id), name, ty.dtype, array);
    }
    let Some(tensor) = model.initializers.get(name) else {
        return Err(Error::internal(format!("the state `{name}` has no elements")));
    };
    upload_tensor((backend, id), (model, tensor), name, ty.dtype)
}

/// Copies a constant to a state.
///
/// # Errors
/// Those of the device.
pub(crate) fn upload_array<B: Backend + ?Sized>(
    on: (&mut B, ModelId),
    name: &str,
    dtype: DType,
    array: &Array,
) -> Result<()> {
    upload_part(on, name, dtype, 0, &array.data)
}

/// Copies an initializer to a state, block by block.
///
/// # Errors
/// Those of the device, a file that cannot be read.
pub(crate) fn upload_tensor<B: Backend + ?Sized>(
    (backend, id): (&mut B, ModelId),
    (model, tensor): (&Model, &Tensor),
    name: &str,
    dtype: DType,
) -> Result<()> {
    let (mut at, element) = (0, tensor.element);
    let mut numbers = Vec::with_capacity(BLOCK.min(tensor.numel()));
    tensor.for_each_block(&model.source, &mut |bytes| {
        for block in bytes.chunks(BLOCK * element.bytes()) {
            numbers.clear();
            numbers.extend(block.chunks_exact(element.bytes()).map(|bytes| element.read(bytes)));
            upload_part((backend, id), name, dtype, at, &numbers)?;
            at += numbers.len();
        }
        Ok(())
    })
}

fn upload_part<B: Backend + ?Sized>(
    (backend, id): (&mut B, ModelId),
    name: &str,
    dtype: DType,
    first: usize,
    data: &[f64],
) -> Result<()> {
    match dtype {
        DType::F32 => {
            let data: Vec<f32> = data.iter().map(|x| *x as f32).collect();
            backend.upload_part(id, name, first, Host::F32(&data))
        }
        DType::F64 => backend.upload_part(id, name, first, Host::F64(data)),
        DType::I32 => {
            let data: Vec<i32> = data.iter().map(|x| *x as i32).collect();
            backend.upload_part(id, name, first, Host::I32(&data))
        }
        _ => {
            let data: Vec<u8> = data.iter().map(|x| *x as u8).collect();
            let host = if dtype == DType::Bool {
                Host::Bool(&data)
            } else {
                Host::U8(&data)
            };
            backend.upload_part(id, name, first, host)
        }
    }
}
