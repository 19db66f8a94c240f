//! Functions of a session: compiling, loading and running graphs over its parameters.

use super::{Results, Session};
use crate::beside::{compile_beside, states_of};
use crate::function_graph::{check_params, function_graph, traced};
use lessen_base::{Error, Result};
use lessen_compile::{CostSource, Options, Plan, Policy};
use lessen_device::checks::given_input;
use lessen_device::{Host, HostArray, MemoryUse, ProgramId, index_checks};
use lessen_graph::{Begun, Graph, InputKind, Tensor};
use lessen_nn::Cx;
use lessen_nn::names::{KEY, is_reserved};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Named arrays for the inputs of a graph.
pub type Inputs<'a> = [(&'a str, Host<'a>)];

/// A graph that a [`Session`] has loaded. It belongs to this session alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    /// Number of the session in this process.
    session: u64,
    /// Number of the function in its session, which is never used again.
    number: u64,
}

/// A function on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    id: ProgramId,
    /// Whether it draws random numbers.
    draws: bool,
    /// Whether it exchanges messages with other processes.
    exchanges: bool,
}

/// How a function is traced and planned.
#[derive(Clone, Copy, Debug, Default)]
pub struct FunctionOptions {
    /// Whether layers compute as in training: with dropout, and batch normalization by the statistics of the batch, of
    /// which it keeps running means.
    pub training: bool,
    /// Most bytes of all that the session takes.
    pub budget: Option<usize>,
    /// Whether the plan is one with the least memory, whatever time it takes; there is no budget then.
    pub tightest: bool,
    /// Choice of the values that backward keeps; it changes no result.
    pub policy: Policy,
    /// Cost model of the memory planner; it changes no result.
    pub cost: CostSource,
}

/// The number of a new session.
pub(super) fn new_owner() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Session {
    /// Compiles a graph over the parameters, without dropout: `trace` returns its results by name. States that it
    /// declares beside the parameters begin as zeros.
    ///
    /// # Errors
    /// A parameter that the model does not have, and a graph that the device's memory cannot hold.
    pub fn function<N: Into<String>>(&mut self, trace: impl Fn(Cx) -> Vec<(N, Tensor)>) -> Result<Function> {
        let graph = self.graph(trace)?;
        self.add(&graph, &self.options())
    }

    /// The graph of a function over the parameters, before it is compiled; its states have the names of
    /// [`Session::state`].
    ///
    /// # Errors
    /// A parameter that the model does not have.
    pub fn graph<N: Into<String>>(&self, trace: impl Fn(Cx) -> Vec<(N, Tensor)>) -> Result<Graph> {
        function_graph(&self.params, &self.view, trace)
    }

    /// As [`Session::function`], with options. A function may assign parameters and states that it declares, with
    /// [`TraceRef::assign`](lessen_graph::TraceRef::assign): training in which several updates alternate is made of
    /// such functions. It reads parameters as they are, whatever norms are converted elsewhere.
    ///
    /// # Errors
    /// As [`Session::function`], and a budget below the floor.
    pub fn function_with<N: Into<String>>(
        &mut self,
        options: FunctionOptions,
        trace: impl Fn(Cx) -> Vec<(N, Tensor)>,
    ) -> Result<Function> {
        let (graph, own) = traced(&self.view, options.training, trace)?;
        check_params(&self.params, &own)?;
        let budget = options.budget;
        let planned = Options {
            budget: None,
            policy: options.policy,
            cost: options.cost,
            ..self.options()
        };
        let budget = if options.tightest {
            let graph = self.sharded(&graph)?;
            let own = self.model.device().hold()?.floor_bytes(&graph, &planned)?;
            Some(own.saturating_add(self.beside(&graph).0))
        } else {
            budget
        };
        self.add(&graph, &Options { budget, ..planned })
    }

    /// Bytes that the session takes beside a graph, and bytes of states that the graph adds.
    fn beside(&self, graph: &Graph) -> (usize, usize) {
        let (mut known, mut new) = (0, 0);
        for (name, ty) in states_of(graph) {
            if self.states.contains(name) {
                known += ty.bytes();
            } else {
                new += ty.bytes();
            }
        }
        // A plan counts its own states; other states, and constants and results of other functions, are beside it.
        (self.lasting_bytes().saturating_sub(known), new)
    }

    /// Compiles and loads a graph; the budget is for all that the session takes.
    pub(crate) fn add(&mut self, graph: &Graph, options: &Options) -> Result<Function> {
        let plan = self.planned(graph, options)?;
        self.load(plan)
    }

    /// Compiles a graph that fits beside the functions that are there.
    pub(super) fn planned(&self, graph: &Graph, options: &Options) -> Result<Plan> {
        let graph = &*self.sharded(graph)?;
        let carrier = self.pieces.params().map(|(_, carrier)| carrier.clone() as _);
        let options = &Options {
            carrier: options.carrier.clone().or(carrier),
            ..options.clone()
        };
        let (beside, new) = self.beside(graph);
        let device = self.model.device().hold()?;
        let plan = compile_beside(&*device, graph, options, (beside, self.arena))?;
        // The arena is shared by all programs on the device.
        let memory = device.memory();
        let more = plan.arena_bytes().saturating_sub(memory.used.arena);
        memory.check(new + plan.constant_bytes() + plan.result_bytes() + more)?;
        Ok(plan)
    }

    /// Bytes of all states and of the constants and results of all functions.
    pub(crate) fn lasting_bytes(&self) -> usize {
        self.planned_memory().lasting()
    }

    /// Bytes of all states, of the constants and results of all functions, and of the arena that they run in, whether
    /// it is allocated already or not.
    pub fn planned_memory(&self) -> MemoryUse {
        let states = self.states.iter().filter_map(|name| self.model.state_type(name));
        let mut memory = MemoryUse {
            states: states.map(|ty| ty.bytes()).sum(),
            ..MemoryUse::default()
        };
        for plan in self.plans() {
            memory.constants += plan.constant_bytes();
            memory.results += plan.result_bytes();
            memory.arena = memory.arena.max(plan.arena_bytes());
        }
        memory
    }

    /// The plans of all functions.
    fn plans(&self) -> Vec<Arc<Plan>> {
        let embeddings = self.embeddings.all();
        let programs = self.programs.values().map(|program| program.id);
        let programs = programs.chain(embeddings.iter().map(|embedding| embedding.program()));
        programs.map(|program| self.model.plan(program)).collect()
    }

    /// Loads a plan; states that are not allocated yet begin as zeros.
    pub(crate) fn load(&mut self, plan: Plan) -> Result<Function> {
        for (name, ty) in states_of(plan.graph()) {
            if let Some(known) = self.model.state_type(name).filter(|known| known != ty) {
                return Err(Error::user(format!(
                    "the state `{name}` is {known} and cannot also be {ty}; give one of them another name"
                )));
            }
        }
        let new: Vec<_> = states_of(plan.graph())
            .filter(|(name, _)| !self.states.contains(*name))
            .map(|(name, ty)| (name.to_string(), ty.clone()))
            .collect();
        let loaded = new.iter().try_for_each(|(name, ty)| self.allocate(name, ty));
        let draws = plan.graph().inputs.iter().any(|input| input.name == KEY);
        let exchanges = plan.graph().nodes.iter().any(|node| node.op.is::<Begun>());
        let program = loaded.and_then(|()| self.model.load(plan));
        let id = program.inspect_err(|_| new.iter().for_each(|(name, _)| self.free(name)))?;
        let number = self.next_function;
        self.next_function += 1;
        self.programs.insert(number, Program { id, draws, exchanges });
        Ok(Function {
            session: self.owner,
            number,
        })
    }

    /// Runs a function. `inputs` may hold more than it declared. Several threads may ask one session: they run one
    /// after another, each on all threads of the device, and each gets the results of its own inputs. Random numbers
    /// are other ones at every run, as [`Session::set_seed`] says.
    ///
    /// # Errors
    /// A function of another session, or one that has been freed; an input that is missing or of another type than
    /// declared, an index out of range. No state has changed then.
    pub fn run(&self, function: Function, inputs: &Inputs<'_>) -> Result<Results> {
        let Program { id, draws, exchanges } = self.program(function)?;
        let carrier = self.pieces.params().map(|(_, carrier)| carrier).filter(|_| exchanges);
        if let Some(carrier) = carrier {
            carrier.begin_run();
        }
        let results = if !draws || inputs.iter().any(|(name, _)| *name == KEY) {
            self.model.run(id, inputs)
        } else {
            self.keys.with_next(|key| {
                let all: Vec<_> = inputs.iter().copied().chain([(KEY, Host::U32(key))]).collect();
                self.model.run(id, &all)
            })
        };
        carrier.map_or(Ok(()), |carrier| carrier.end_run())?;
        Ok(Results::new(results?))
    }

    /// Zeros for the inputs that a function declares beside those of training.
    pub(crate) fn zeros_for(&self, function: Function) -> Result<Vec<(String, HostArray)>> {
        let plan = self.plan(function)?;
        let inputs = plan.graph().inputs.iter().filter(|input| input.kind == InputKind::Data);
        let own = inputs.filter(|input| !is_reserved(&input.name));
        let zeros = own.map(|input| {
            let ty = plan.graph().ty(input.value);
            (
                input.name.clone(),
                HostArray::from_le_bytes(ty.dtype, &vec![0; ty.bytes()]),
            )
        });
        Ok(zeros.collect())
    }

    /// A graph that gathers parameters of which this process has a piece.
    fn sharded<'a>(&self, graph: &'a Graph) -> Result<Cow<'a, Graph>> {
        match self.pieces.params() {
            Some((sharding, _)) => sharding.sharded(graph).map(Cow::Owned),
            None => Ok(Cow::Borrowed(graph)),
        }
    }

    /// Checks the inputs of a function as a run of it does.
    ///
    /// # Errors
    /// Those of [`Session::run`] that arise before it computes.
    pub(crate) fn check(&self, function: Function, inputs: &Inputs<'_>) -> Result<()> {
        let plan = self.plan(function)?;
        let checks = index_checks(&plan);
        for (number, input) in plan.graph().inputs.iter().enumerate() {
            if input.kind == InputKind::Data {
                let host = given_input(&input.name, plan.graph().ty(input.value), inputs)?;
                let mut own = checks.iter().filter(|check| check.input == number);
                own.try_for_each(|check| check.check(host))?;
            }
        }
        Ok(())
    }

    /// The program of a function.
    fn program(&self, function: Function) -> Result<Program> {
        if function.session != self.owner {
            return Err(Error::user(
                "the function belongs to another session or trainer; run it there, or make one here",
            ));
        }
        let program = self.programs.get(&function.number).copied();
        program.ok_or_else(|| Error::user("the function has been freed; make it anew"))
    }

    /// Frees a function. Its states stay.
    ///
    /// # Errors
    /// A function of another session, or one that has been freed already.
    pub fn unload(&mut self, function: Function) -> Result<()> {
        let program = self.program(function)?;
        self.programs.remove(&function.number);
        self.model.unload(program.id);
        Ok(())
    }

    /// Frees all functions.
    pub(super) fn unload_all(&mut self) {
        for program in std::mem::take(&mut self.programs).into_values() {
            self.model.unload(program.id);
        }
        for program in self.embeddings.take() {
            self.model.unload(program);
        }
    }

    /// The plan of a function.
    ///
    /// # Errors
    /// A function of another session, or one that has been freed.
    pub fn plan(&self, function: Function) -> Result<Arc<Plan>> {
        Ok(self.model.plan(self.program(function)?.id))
    }

    /// Sets the arena bytes within which graphs that are added from now on are planned, if possible.
    pub(crate) fn keep_arena(&mut self, bytes: usize) {
        self.arena = Some(bytes);
    }

    /// Allocates the memory of runs beside parameters and states; without it, the first run does.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn reserve(&mut self) -> Result<()> {
        let arenas = self.plans().into_iter().map(|plan| plan.arena_bytes());
        let arena = arenas.fold(self.arena.unwrap_or(0), usize::max);
        self.model.device().hold()?.reserve(arena)
    }
}
