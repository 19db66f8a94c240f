//! A session: a device with a model's parameters, and functions over them. Training, evaluation, prediction and
//! generation all run in one.

mod open;

pub(crate) use self::open::PARAMETERS;

use crate::array::{HostArray, StateArray, write_le};
use crate::memory::check_memory;
use crate::plans::{compile_beside, function_graph, states_of};
use crate::reading::Reading;
use lessen_base::{Error, Result};
use lessen_compile::{Backend, DeviceMemory, Host, Options, Plan, ProgramId};
use lessen_graph::{Graph, Tensor, Type};
use lessen_nn::checkpoint::{self, Entry, Sink, TensorFile, WeightDtype};
use lessen_nn::{Context, ParamSpec, Weight, Weights};
use serde_json::{Map, Value};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

/// Elements that are copied to the device at once.
const BLOCK: usize = 1 << 16;

/// Named arrays for the inputs of a graph.
pub type Inputs<'a> = [(&'a str, Host<'a>)];

/// A graph that a [`Session`] has loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    program: ProgramId,
}

/// The results of a function's last run.
pub struct Results<'a> {
    backend: &'a dyn Backend,
    program: ProgramId,
}

impl<'a> Results<'a> {
    /// A result by name, in row-major order.
    pub fn get(&self, name: &str) -> Option<Host<'a>> {
        self.backend.output(self.program, name)
    }

    /// A result of dtype `f32` by name, in row-major order.
    pub fn f32(&self, name: &str) -> Option<&'a [f32]> {
        self.get(name)?.as_f32()
    }

    /// The first element of a result of dtype `f32`.
    pub(crate) fn scalar(&self, name: &str) -> Option<f32> {
        self.f32(name)?.first().copied()
    }
}

/// A model on a device: its parameters, and functions over them.
pub struct Session {
    backend: Box<dyn Backend>,
    params: Vec<ParamSpec>,
    /// The states that are allocated, the parameters among them.
    states: BTreeSet<String>,
    loaded: Vec<Function>,
    /// The arena that functions are to get along with.
    arena: Option<usize>,
    /// How functions read parameters.
    reading: Reading,
}

impl Session {
    /// A model with these parameters and their values.
    ///
    /// # Errors
    /// A parameter without value or of another shape, and parameters that the device's memory cannot hold.
    pub fn new(backend: Box<dyn Backend>, params: Vec<ParamSpec>, weights: &Weights) -> Result<Session> {
        for ParamSpec { name, shape, .. } in &params {
            if weights.get(name).is_none_or(|weight| weight.shape != *shape) {
                return Err(Error::user(format!(
                    "there is no value of shape {shape:?} for `{name}`"
                )));
            }
        }
        let mut session = Session::zeros(backend, params)?;
        let names: Vec<String> = session.params.iter().map(|param| param.name.clone()).collect();
        for name in names {
            session.backend.upload(&name, Host::F32(&weights[&name].data))?;
        }
        Ok(session)
    }

    /// A model with these parameters, which are zeros.
    ///
    /// # Errors
    /// Parameters that the device's memory cannot hold.
    pub fn zeros(backend: Box<dyn Backend>, params: Vec<ParamSpec>) -> Result<Session> {
        let mut session = Session {
            backend,
            params: Vec::new(),
            states: BTreeSet::new(),
            loaded: Vec::new(),
            arena: None,
            reading: Reading::default(),
        };
        for ParamSpec { name, shape, .. } in &params {
            session.allocate(name, &Type::f32(shape))?;
        }
        session.params = params;
        Ok(session)
    }

    /// The same device with other parameters: those that stay, by name and shape, keep their values, and so do the
    /// states `kept`, by name and type. All other states and all functions are freed; new parameters are zeros. Returns
    /// the names of these as well.
    ///
    /// # Errors
    /// Parameters that the device's memory cannot hold.
    pub fn with_params(mut self, params: Vec<ParamSpec>, kept: &[(String, Type)]) -> Result<(Session, Vec<String>)> {
        for function in std::mem::take(&mut self.loaded) {
            self.backend.unload(function.program);
        }
        self.arena = None;
        self.reading = Reading::default();
        let stays = |name: &str, ty: &Type| {
            let is_param = params.iter().any(|param| param.name == name && param.shape == ty.shape);
            is_param || kept.iter().any(|(own, own_ty)| own == name && own_ty == ty)
        };
        for name in std::mem::take(&mut self.states) {
            match self.backend.state_type(&name) {
                Some(ty) if stays(&name, ty) => drop(self.states.insert(name)),
                _ => self.backend.free(&name),
            }
        }
        let mut new = Vec::new();
        for ParamSpec { name, shape, .. } in &params {
            if !self.states.contains(name) {
                self.allocate(name, &Type::f32(shape))?;
                new.push(name.clone());
            }
        }
        self.params = params;
        Ok((self, new))
    }

    fn allocate(&mut self, name: &str, ty: &Type) -> Result<()> {
        self.backend.allocate(name, ty)?;
        self.states.insert(name.to_string());
        Ok(())
    }

    /// Gives elements of a parameter from number `first` on other values.
    ///
    /// # Errors
    /// A parameter that the model does not have, or that ends sooner.
    pub fn set_part(&mut self, name: &str, first: usize, values: &[f32]) -> Result<()> {
        self.backend.upload_part(name, first, Host::F32(values))
    }

    /// Gives parameters the initial values that they were declared with.
    ///
    /// # Errors
    /// A device that fails.
    pub fn draw(&mut self, is_drawn: impl Fn(&str) -> bool, seed: u64) -> Result<()> {
        let drawn = self.params.iter().filter(|param| is_drawn(&param.name));
        for ParamSpec { name, shape, init, .. } in drawn {
            let (mut values, count) = (init.sequence(seed, name), shape.iter().product::<usize>());
            for first in (0..count).step_by(BLOCK) {
                let part: Vec<f32> = values.by_ref().take(BLOCK.min(count - first)).collect();
                self.backend.upload_part(name, first, Host::F32(&part))?;
            }
        }
        Ok(())
    }

    /// Compiles a graph over the parameters, without dropout: `trace` returns its results by name. States that it
    /// declares beside the parameters begin as zeros.
    ///
    /// # Errors
    /// A parameter that the model does not have, and a graph that the machine's memory cannot hold.
    pub fn function(
        &mut self,
        trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
    ) -> Result<Function> {
        let graph = function_graph(&self.params, &self.reading, trace)?;
        self.add(&graph, &Options::default())
    }

    /// Makes functions that are added from now on read parameters this way.
    pub(crate) fn read_as(&mut self, reading: Reading) {
        self.reading = reading;
    }

    /// How functions read parameters.
    pub(crate) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Gives the parameters what training results in: averages, and the sums with adapters.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if let Some(graph) = self.reading.finish(&self.params) {
            let function = self.add(&graph, &Options::default())?;
            self.run(function, &[])?;
            self.unload(function);
        }
        self.reading = Reading::default();
        Ok(())
    }

    /// Makes graphs that are added from now on get along with an arena of so many bytes, if they can.
    pub(crate) fn keep_arena(&mut self, bytes: usize) {
        self.arena = Some(bytes);
    }

    /// Allocates what runs take beside parameters and states, which otherwise the first run does.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn reserve(&mut self) -> Result<()> {
        let plans = self.loaded.iter().map(|function| self.plan(*function).arena_bytes());
        let arena = plans.fold(self.arena.unwrap_or(0), usize::max);
        self.backend.reserve(arena)
    }

    /// Compiles and loads a graph; the budget is for all that the session takes.
    pub(crate) fn add(&mut self, graph: &Graph, options: &Options) -> Result<Function> {
        let backend = self.backend.as_ref();
        let (mut known, mut new) = (0, 0);
        for (name, ty) in states_of(graph) {
            match backend.state_type(name) {
                Some(_) => known += ty.bytes(),
                None => new += ty.bytes(),
            }
        }
        let memory = backend.memory();
        // A plan counts its own states; the others, and the constants of other functions, stay beside it.
        let beside = memory.states - known + memory.constants;
        let plan = compile_beside(backend, graph, options, (beside, self.arena))?;
        // The arena is shared with whatever else runs on the device.
        let more = plan.arena_bytes().saturating_sub(memory.arena);
        check_memory(new + plan.constant_bytes() + more)?;
        self.load(plan)
    }

    /// Loads a plan; states that are not allocated yet begin as zeros.
    pub(crate) fn load(&mut self, plan: Plan) -> Result<Function> {
        for (name, ty) in states_of(plan.graph()) {
            match self.backend.state_type(name) {
                Some(known) if known == ty => {}
                Some(known) => {
                    return Err(Error::user(format!(
                        "the state `{name}` is {known} and cannot also be {ty}; give one of them another name"
                    )));
                }
                None => {
                    self.backend.allocate(name, ty)?;
                    self.states.insert(name.to_string());
                }
            }
        }
        let function = Function {
            program: self.backend.load(plan)?,
        };
        self.loaded.push(function);
        Ok(function)
    }

    /// Runs a function. `inputs` may hold more than it declared.
    ///
    /// # Errors
    /// An input that is missing or of another type than declared, an index out of range. No state has changed then.
    pub fn run(&mut self, function: Function, inputs: &Inputs<'_>) -> Result<Results<'_>> {
        self.backend.run(function.program, inputs)?;
        Ok(self.results(function))
    }

    /// The results of a function's last run.
    pub(crate) fn results(&self, function: Function) -> Results<'_> {
        Results {
            backend: self.backend.as_ref(),
            program: function.program,
        }
    }

    /// Frees a function. Its states stay.
    pub fn unload(&mut self, function: Function) {
        self.loaded.retain(|loaded| *loaded != function);
        self.backend.unload(function.program);
    }

    /// The plan of a function.
    pub fn plan(&self, function: Function) -> &Plan {
        self.backend.plan(function.program)
    }

    /// The parameters: names, shapes, first values.
    pub fn params(&self) -> &[ParamSpec] {
        &self.params
    }

    /// The parameters' values.
    ///
    /// # Errors
    /// A device that fails.
    pub fn weights(&self) -> Result<Weights> {
        let mut weights = Weights::new();
        for ParamSpec { name, shape, .. } in &self.params {
            let mut data = None;
            self.backend
                .download(name, &mut |host| data = host.as_f32().map(<[f32]>::to_vec))?;
            let data = data.ok_or_else(|| Error::internal(format!("the parameter `{name}` is not of dtype f32")))?;
            let shape = shape.clone();
            weights.insert(name.clone(), Weight { shape, data });
        }
        Ok(weights)
    }

    /// Gives parameters other values; those that `weights` lacks keep theirs.
    ///
    /// # Errors
    /// A name that the model does not have, or a wrong shape; no parameter has changed then.
    pub fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        for (name, weight) in weights {
            let fits = |param: &ParamSpec| param.name == *name && param.shape == weight.shape;
            if !self.params.iter().any(fits) {
                return Err(Error::user(format!(
                    "the model has no parameter `{name}` of shape {:?}",
                    weight.shape
                )));
            }
        }
        let mut all = weights.iter();
        all.try_for_each(|(name, weight)| self.backend.upload(name, Host::F32(&weight.data)))
    }

    /// The name of a parameter with a value that is NaN or infinite.
    ///
    /// # Errors
    /// A device that fails.
    pub fn broken_parameter(&self) -> Result<Option<&str>> {
        for param in &self.params {
            let mut broken = false;
            self.backend.download(&param.name, &mut |host| {
                broken = host.elements().any(|value| !value.is_finite());
            })?;
            if broken {
                return Ok(Some(&param.name));
            }
        }
        Ok(None)
    }

    /// Writes the parameters as a Hugging Face directory with this configuration in this dtype, tensor by tensor: of a
    /// training that averages them the averages, and of one with adapters these in the layout of `peft`.
    ///
    /// # Errors
    /// A folder that cannot be written to, and a number that the dtype does not reach.
    pub fn save(&self, dir: &Path, config_json: &Map<String, Value>, dtype: WeightDtype) -> Result<()> {
        let lora = self.reading.lora();
        let is_saved = |param: &&ParamSpec| lora.is_none_or(|lora| lora.trains(&param.name));
        let params = self.params.iter().filter(is_saved);
        let mut entries: Vec<Entry> = params.map(|param| self.entry(&param.name)).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let show = |entry: &Entry, sink: &mut Sink<'_>| {
            let mut taken = Ok(());
            let state = self.reading.result_of(&entry.name);
            let read = self.backend.download(&state, &mut |host| {
                taken = sink(host.as_f32().unwrap_or_default());
            });
            read.map_err(io::Error::other)?;
            taken
        };
        match lora {
            Some(lora) => checkpoint::save_adapters(dir, config_json, lora, dtype, &entries, show),
            None => checkpoint::save_with(dir, config_json, dtype, &entries, show),
        }
    }

    /// Writes states to a file, tensor by tensor; returns what is in it.
    pub(crate) fn save_states(&self, path: &Path, names: &[String]) -> Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = names.iter().map(|name| self.entry(name)).collect();
        // Larger elements first: all are aligned.
        entries.sort_by(|a, b| {
            let size = |entry: &Entry| Reverse(entry.ty.dtype.bytes());
            size(a).cmp(&size(b)).then_with(|| a.name.cmp(&b.name))
        });
        checkpoint::write_tensors(path, &entries, |entry, out| self.write(&entry.name, out))?;
        Ok(entries)
    }

    /// A state that is allocated, as a tensor of a file.
    fn entry(&self, name: &str) -> Entry {
        Entry {
            name: name.to_string(),
            ty: self.backend.state_type(name).cloned().unwrap_or(Type::f32(&[])),
        }
    }

    fn write(&self, name: &str, out: &mut dyn Write) -> io::Result<()> {
        let mut written = Ok(());
        let read = self.backend.download(name, &mut |host| written = write_le(host, out));
        read.map_err(io::Error::other)?;
        written
    }

    /// A state of any dtype, as it is now.
    pub(crate) fn state(&self, name: &str) -> Result<StateArray> {
        let ty = self.backend.state_type(name).cloned();
        let mut data = None;
        self.backend
            .download(name, &mut |host| data = Some(HostArray::from(host)))?;
        match (ty, data) {
            (Some(ty), Some(data)) => Ok(StateArray {
                name: name.to_string(),
                shape: ty.shape,
                data,
            }),
            _ => Err(Error::internal(format!("the state `{name}` cannot be read"))),
        }
    }

    /// Reads those states of a file that `wanted` contains and the session has in the same type, in blocks. Returns the
    /// names of those that it read.
    pub(crate) fn load_states(&mut self, file: &mut TensorFile, wanted: &[String]) -> Result<Vec<String>> {
        let has =
            |entry: &Entry| wanted.contains(&entry.name) && self.backend.state_type(&entry.name) == Some(&entry.ty);
        let entries: Vec<Entry> = file.entries().filter(has).collect();
        for Entry { name, ty } in &entries {
            let mut first = 0;
            file.visit(name, &mut |bytes| {
                let part = HostArray::from_le_bytes(ty.dtype, bytes);
                self.backend.upload_part(name, first, part.host())?;
                first += part.host().len();
                Ok(())
            })?;
        }
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    /// Whether there is a state of this name and type.
    pub(crate) fn has_state(&self, array: &StateArray) -> bool {
        self.backend.state_type(&array.name) == Some(&array.ty())
    }

    /// Gives a state another value.
    pub(crate) fn set_state(&mut self, array: &StateArray) -> Result<()> {
        self.backend.upload(&array.name, array.data.host())
    }

    /// Sets a state to zeros.
    pub(crate) fn clear_state(&mut self, name: &str) -> Result<()> {
        match self.backend.state_type(name).cloned() {
            Some(ty) => self.backend.allocate(name, &ty),
            None => Ok(()),
        }
    }

    /// Frees a state, which no loaded function may read any more.
    pub(crate) fn free(&mut self, name: &str) {
        if self.states.remove(name) {
            self.backend.free(name);
        }
    }

    /// What is allocated now.
    pub fn memory(&self) -> DeviceMemory {
        self.backend.memory()
    }
}
