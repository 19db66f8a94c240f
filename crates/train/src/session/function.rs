//! Functions of a session: compiling, loading and running graphs over its parameters.

use super::Session;
use crate::graphs::{function_graph, states_of};
use crate::plans::compile_beside;
use lessen_base::{Error, Result};
use lessen_compile::{Options, Plan};
use lessen_device::{Host, HostArray, ProgramId};
use lessen_graph::{Graph, Tensor};
use lessen_nn::Context;
use std::sync::Arc;

/// Named arrays for the inputs of a graph.
pub type Inputs<'a> = [(&'a str, Host<'a>)];

/// A graph that a [`Session`] has loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    program: ProgramId,
}

/// The results of a run of a function.
#[derive(Clone, Debug)]
pub struct Results {
    arrays: Vec<(String, Arc<HostArray>)>,
}

impl Results {
    /// A result by name, in row-major order.
    pub fn get(&self, name: &str) -> Option<Host<'_>> {
        let found = self.arrays.iter().find(|(own, _)| own == name);
        found.map(|(_, array)| array.host())
    }

    /// A result of dtype `f32` by name, in row-major order.
    pub fn f32(&self, name: &str) -> Option<&[f32]> {
        self.get(name)?.as_f32()
    }

    /// The first element of a result of dtype `f32`.
    pub(crate) fn scalar(&self, name: &str) -> Option<f32> {
        self.f32(name)?.first().copied()
    }
}

impl Session {
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
        self.add(&graph, &self.options())
    }

    /// Compiles and loads a graph; the budget is for all that the session takes.
    pub(crate) fn add(&mut self, graph: &Graph, options: &Options) -> Result<Function> {
        let device = self.model.device().lock();
        let (mut known, mut new) = (0, 0);
        for (name, ty) in states_of(graph) {
            match device.state_type(self.model.id(), name) {
                Some(_) => known += ty.bytes(),
                None => new += ty.bytes(),
            }
        }
        let memory = device.memory();
        let used = memory.used;
        // A plan counts its own states; the others, and the constants of other functions, stay beside it.
        let beside = used.states - known + used.constants;
        let plan = compile_beside(&*device, graph, options, (beside, self.arena))?;
        // The arena is shared with whatever else runs on the device.
        let more = plan.arena_bytes().saturating_sub(used.arena);
        memory.check(new + plan.constant_bytes() + more)?;
        drop(device);
        self.load(plan)
    }

    /// Loads a plan; states that are not allocated yet begin as zeros.
    pub(crate) fn load(&mut self, plan: Plan) -> Result<Function> {
        for (name, ty) in states_of(plan.graph()) {
            match self.model.state_type(name) {
                Some(known) if known == *ty => {}
                Some(known) => {
                    return Err(Error::user(format!(
                        "the state `{name}` is {known} and cannot also be {ty}; give one of them another name"
                    )));
                }
                None => {
                    self.model.allocate(name, ty)?;
                    self.states.insert(name.to_string());
                }
            }
        }
        let function = Function {
            program: self.model.load(plan)?,
        };
        self.loaded.push(function);
        Ok(function)
    }

    /// Runs a function. `inputs` may hold more than it declared.
    ///
    /// # Errors
    /// An input that is missing or of another type than declared, an index out of range. No state has changed then.
    pub fn run(&mut self, function: Function, inputs: &Inputs<'_>) -> Result<Results> {
        self.model.run(function.program, inputs)?;
        Ok(self.results(function))
    }

    /// The results of a function's last run.
    pub(crate) fn results(&self, function: Function) -> Results {
        Results {
            arrays: self.model.outputs(function.program),
        }
    }

    /// Frees a function. Its states stay.
    pub fn unload(&mut self, function: Function) {
        self.loaded.retain(|loaded| *loaded != function);
        self.model.unload(function.program);
    }

    /// The plan of a function.
    pub fn plan(&self, function: Function) -> Arc<Plan> {
        self.model.plan(function.program)
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
        self.model.device().lock().reserve(arena)
    }
}
