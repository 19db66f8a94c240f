//! The executable: a plan bound to kernels, run step after step.

use std::sync::{Arc, PoisonError};

use lessen_base::{Error, Result};
use lessen_compile::{Plan, Storage};
use lessen_device::checks::{check_state, given_input};
use lessen_device::{Host, HostArray, IndexCheck, ProgramId, check_constant_indices, index_checks};
use lessen_graph::{InputKind, Type};

use crate::bind::{Binder, Bound, end_of};
use crate::clock::{Clock, Profile};
use crate::constants::Constants;
use crate::device::Device;
use crate::group::Context;
use crate::host_arrays::{host_array, host_ptr};
use crate::index_errors::IndexErrors;
use crate::operand::{Bases, Location, location};
use crate::results::Returned;
use crate::store::Store;

/// A data input: its position among the graph's inputs, and where it lies.
struct DataInput {
    input: usize,
    name: String,
    ty: Type,
    to: Location,
}

/// An assignment that copies when a run ends.
struct Copy {
    /// The state's position among the graph's inputs.
    state: usize,
    bytes: usize,
    from: Location,
}

/// A plan bound to kernels.
pub struct Executable {
    pub(crate) plan: Arc<Plan>,
    pub(crate) bound: Vec<Bound>,
    /// For each of the graph's inputs, this program, if it is a state that was packed for it.
    pub(crate) packed: Vec<Option<ProgramId>>,
    constants: Constants,
    data: Vec<DataInput>,
    results: Vec<Returned>,
    copies: Vec<Copy>,
    index_checks: Vec<IndexCheck>,
    /// Why no run can succeed: a constant that is no valid index.
    wrong_constant: Option<Error>,
    index_errors: IndexErrors,
    clock: Clock,
    arena_reached: usize,
    /// Whether a run has ended.
    has_run: bool,
}

impl Executable {
    /// Binds a plan to kernels and evaluates its constants.
    ///
    /// # Panics
    /// If [`Executable::new`] is an error.
    pub fn load(plan: Plan) -> Executable {
        Executable::new(plan).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Binds a plan to kernels and evaluates its constants.
    ///
    /// # Errors
    /// Constants that the memory cannot hold, or a plan that was compiled for another device.
    pub fn new(plan: Plan) -> Result<Executable> {
        let constants = Constants::of(&plan)?;
        let offsets = &constants.offsets;
        let bound = Binder {
            plan: &plan,
            constants: offsets,
        }
        .bind()?;
        let graph = plan.graph();
        let inputs = graph.inputs.iter().enumerate();
        let data = inputs
            .filter(|(_, i)| i.kind == InputKind::Data)
            .map(|(input, i)| DataInput {
                input,
                name: i.name.clone(),
                ty: graph.ty(i.value).clone(),
                to: location(&plan, offsets, i.value),
            });
        let results = graph.outputs.iter().map(|o| Returned::new(&plan, offsets, o));
        let results = results.collect::<Result<_>>()?;
        let copies = plan.copies().iter().map(|assign| {
            let Storage::State(state) = plan.storage(assign.target) else {
                unreachable!("assignments target states")
            };
            Copy {
                state,
                bytes: graph.ty(assign.target).bytes(),
                from: location(&plan, offsets, assign.value),
            }
        });
        let ends = graph.inputs.iter().map(|i| end_of(&plan, i.value));
        let arena_reached = ends.chain(bound.iter().map(|b| b.reach)).max().unwrap_or(0);
        if arena_reached > plan.arena_bytes() {
            return Err(Error::internal("the plan reaches beyond the arena that it asks for"));
        }
        Ok(Executable {
            data: data.collect(),
            results,
            copies: copies.collect(),
            index_checks: index_checks(&plan),
            wrong_constant: check_constant_indices(&plan).err(),
            index_errors: IndexErrors::default(),
            clock: Clock::default(),
            arena_reached,
            has_run: false,
            bound,
            constants,
            packed: vec![None; plan.graph().inputs.len()],
            plan: Arc::new(plan),
        })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Names and types of the data inputs.
    pub fn data_inputs(&self) -> impl Iterator<Item = (&str, &Type)> {
        self.data.iter().map(|input| (input.name.as_str(), &input.ty))
    }

    /// Bytes allocated for constants.
    pub fn constant_bytes(&self) -> usize {
        self.constants.memory.len()
    }

    /// Bytes allocated for results.
    pub fn result_bytes(&self) -> usize {
        self.results.iter().map(|result| result.ty().bytes()).sum()
    }

    /// Bytes in use at the peak of a run: the memory of its states, constants and results, and the arena up to the last
    /// byte that a step of this executable was handed.
    pub fn measured_peak_bytes(&self, store: &Store) -> usize {
        let inputs = self.plan.graph().inputs.iter();
        let states = inputs.filter(|i| i.kind == InputKind::State);
        let state_bytes: usize = states.filter_map(|i| store.ty(&i.name)).map(Type::bytes).sum();
        state_bytes + self.constant_bytes() + self.result_bytes() + self.arena_reached
    }

    /// Runs the plan: reads and updates the states of `store`, given the data inputs by name.
    ///
    /// # Errors
    /// An input or a state that is missing or of another type, or an index out of range. No state has changed then.
    pub fn run(&mut self, device: &mut Device, store: &mut Store, data: &[(&str, Host<'_>)]) -> Result<()> {
        if device.threads() > self.plan.workers() {
            let (has, plan) = (device.threads(), self.plan.workers());
            return Err(Error::user(format!(
                "the plan is for {plan} threads, the device has {has}; compile for it"
            )));
        }
        if let Some(error) = &self.wrong_constant {
            return Err(error.clone());
        }
        let states = self.states(store)?;
        let given = self.given(data)?;
        self.check_indices(store, &given)?;
        device.arena.grow(self.plan.arena_bytes())?;
        self.results.iter_mut().try_for_each(Returned::prepare)?;
        let bases = Bases {
            arena: device.arena.ptr(),
            constants: self.constants.memory.ptr(),
            states,
        };
        for (input, host) in self.data.iter().zip(&given) {
            // SAFETY: the plan gives the input memory of its type, which the data has been checked to fill exactly.
            unsafe {
                bases
                    .at(input.to, std::ptr::null_mut())
                    .copy_from_nonoverlapping(host_ptr(host), input.ty.bytes());
            }
        }
        self.run_steps(device, &bases)?;
        for result in &mut self.results {
            result.download(&bases);
        }
        for copy in &self.copies {
            let source = bases.at(copy.from, std::ptr::null_mut());
            // SAFETY: the plan keeps the value until the end of the run, with the state's type, densely, and not in
            // the state itself.
            unsafe { bases.states[copy.state].copy_from_nonoverlapping(source, copy.bytes) };
        }
        self.has_run = true;
        Ok(())
    }

    /// Runs the steps, up to one that finds a wrong index: steps that update states come later.
    fn run_steps(&self, device: &Device, bases: &Bases) -> Result<()> {
        let context = Context {
            bases,
            index_errors: &self.index_errors,
            clock: &self.clock,
        };
        for (step, bound) in self.bound.iter().enumerate() {
            self.clock.time_step(step, || bound.run(&device.pool, &context));
            if let Some(error) = self.index_errors.take(&self.plan, step) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// The addresses of the states, by position among the graph's inputs; null for data.
    fn states(&self, store: &Store) -> Result<Vec<*mut u8>> {
        let graph = self.plan.graph();
        let mut states = vec![std::ptr::null_mut(); graph.inputs.len()];
        for ((to, input), packed) in states.iter_mut().zip(&graph.inputs).zip(&self.packed) {
            if input.kind != InputKind::State {
                continue;
            }
            let (ty, name) = (graph.ty(input.value), &input.name);
            let state = store.state(name);
            check_state(name, ty, state.map(|state| &state.ty))?;
            *to = match state {
                Some(state) if state.packed_for == *packed => state.memory.ptr(),
                _ => {
                    return Err(Error::internal(format!(
                        "the state `{name}` is packed for another program"
                    )));
                }
            };
        }
        Ok(states)
    }

    /// The data for each data input.
    fn given<'a>(&self, data: &[(&str, Host<'a>)]) -> Result<Vec<Host<'a>>> {
        let given = self.data.iter();
        let given = given.map(|DataInput { name, ty, .. }| given_input(name, ty, data));
        given.collect()
    }

    fn check_indices(&self, store: &Store, given: &[Host<'_>]) -> Result<()> {
        for check in &self.index_checks {
            let data = self.data.iter().position(|d| d.input == check.input);
            match data {
                Some(i) => check.check(given[i])?,
                None => {
                    let name = &self.plan.graph().inputs[check.input].name;
                    let state = store.state(name).expect("the states have been looked up");
                    // SAFETY: the state's memory holds the elements of its type, and nothing writes to it now.
                    check.check(unsafe { host_array(&state.ty, state.memory.ptr()) })?;
                }
            }
        }
        Ok(())
    }

    /// A result of the last run, in row-major order.
    pub fn output_f32(&self, name: &str) -> Option<&[f32]> {
        self.output(name)?.as_f32()
    }

    /// A result of the last run, in row-major order.
    pub fn output(&self, name: &str) -> Option<Host<'_>> {
        let result = self.results.iter().find(|r| r.name == name)?;
        Some(result.host())
    }

    /// A result of the last run that stays as it is when the plan runs again; none before the first run.
    pub(crate) fn shared_output(&self, name: &str) -> Option<Arc<HostArray>> {
        let result = self.results.iter().find(|r| r.name == name)?;
        self.has_run.then(|| result.shared())
    }

    /// The type of a result.
    pub fn output_type(&self, name: &str) -> Option<&Type> {
        self.results.iter().find(|r| r.name == name).map(Returned::ty)
    }

    /// Starts or stops collecting where the time goes; starting forgets the times that were collected.
    pub fn set_profiling(&mut self, on: bool) {
        self.clock = if on {
            Clock::started(&self.plan)
        } else {
            Clock::default()
        };
    }

    /// Where the time went since profiling was started.
    pub fn profile(&self) -> Profile {
        self.clock.profile()
    }

    /// Seconds in the kernels of each node of the plan's graph since profiling was started, summed over all threads and
    /// all runs.
    pub fn node_seconds(&self) -> Vec<f64> {
        self.clock.node_seconds()
    }

    /// Seconds of each step of the plan since profiling was started, all runs together; empty before the first one.
    pub fn step_seconds(&self) -> Vec<f64> {
        self.clock.steps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
