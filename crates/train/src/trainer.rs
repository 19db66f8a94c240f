//! Training of one model, step by step: whatever can be written as a function from a [`Context`] to a loss.
//!
//! The trainer traces the function, adds derivative and update, compiles the whole, and holds parameters and the
//! optimizer's state. Where batches come from and what happens between steps is the caller's.

mod checkpoint;

use crate::array::StateArray;
use crate::options::TrainerOptions;
use crate::plans::{StepGraphs, StepPlans, check_params, function_graph, step_graph};
use crate::recording::{Statistics, recording_graph};
use crate::session::{Function, Inputs, Results, Session};
use lessen_base::{Error, Result};
use lessen_compile::{Backend, Host, Options, Placement};
use lessen_graph::{Graph, Tensor};
use lessen_nn::checkpoint::{Entry, TensorFile, WeightDtype};
use lessen_nn::optimizer::steps_input;
use lessen_nn::{BatchShape, Context, ParamSpec, Selection, Weights};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// The number of this step, from 1.
    pub step: u64,
    /// The loss before the update, over all batches of the step.
    pub loss: f32,
    /// The learning rate.
    pub lr: f64,
    /// The norm of the gradient before it was clipped, where it is clipped.
    pub gradient_norm: Option<f32>,
    /// How long it took.
    pub time: Duration,
}

/// A batch of a step.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Its share in the loss.
    pub share: f32,
    /// Its layout, where the trainer has steps for several; see [`Trainer::add_step`].
    pub shape: Option<BatchShape>,
    /// The arrays; there may be more than the function declared.
    pub inputs: &'a Inputs<'a>,
}

impl<'a> Part<'a> {
    /// A batch with this share in the loss.
    pub fn new(share: f32, inputs: &'a Inputs<'a>) -> Part<'a> {
        let shape = None;
        Part { share, shape, inputs }
    }

    /// The same in this layout.
    pub fn at(self, shape: BatchShape) -> Part<'a> {
        let shape = Some(shape);
        Part { shape, ..self }
    }
}

/// The planned and the measured most bytes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// What the plans say: states, constants and the largest arena.
    pub planned: usize,
    /// What has been allocated for states, constants and the arena by now.
    pub measured: usize,
}

/// A model in training.
pub struct Trainer {
    session: Session,
    states: Vec<String>,
    gradient_sums: Vec<String>,
    /// The graphs of a step by the layout of batches; a single one where that is always the same.
    steps: HashMap<Option<BatchShape>, Function>,
    /// With accumulation, the graph that updates after the last batch.
    apply: Option<Function>,
    functions: Vec<Function>,
    options: TrainerOptions,
    /// What the plans say of states and constants.
    planned_lasting: usize,
    /// The largest arena of a plan.
    planned_arena: usize,
    done: u64,
}

impl Trainer {
    /// Prepares training of the function `loss`, which declares its inputs and parameters through the context and
    /// returns a scalar. Parameters begin with the values that they were declared with.
    ///
    /// # Errors
    /// Shapes that do not fit each other and a loss that is no scalar, with the line of the model function; a budget
    /// below the floor, and a step that the machine's memory cannot hold. Nothing is allocated then.
    pub fn new(
        backend: Box<dyn Backend>,
        options: TrainerOptions,
        loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>,
    ) -> Result<Trainer> {
        let plans = StepPlans::new(backend.as_ref(), &options, &StepGraphs::new(&options, loss)?)?;
        plans.check_memory()?;
        let mut session = Session::zeros(backend, plans.params.clone())?;
        session.draw(|_| true, options.seed)?;
        Trainer::from_plans(session, options, plans)
    }

    /// [`Trainer::new`] from plans made with [`StepPlans::new`] for the same device and options, in a session with
    /// their parameters. Its other states keep their values, too.
    ///
    /// # Errors
    /// States that the device's memory cannot hold, or that the session has in another type.
    pub fn from_plans(mut session: Session, options: TrainerOptions, plans: StepPlans) -> Result<Trainer> {
        let (planned_lasting, planned_arena) = (plans.lasting_bytes(), plans.arena_bytes());
        session.keep_arena(planned_arena);
        session.read_as(plans.reading);
        let steps = HashMap::from([(plans.shape, session.load(plans.step)?)]);
        let apply = plans.apply.map(|plan| session.load(plan)).transpose()?;
        let functions = plans.functions.into_iter().map(|plan| session.load(plan));
        let functions = functions.collect::<Result<_>>()?;
        Ok(Trainer {
            session,
            states: plans.states.into_iter().map(|(name, _)| name).collect(),
            gradient_sums: plans.gradient_sums,
            steps,
            apply,
            functions,
            options,
            planned_lasting,
            planned_arena,
            done: 0,
        })
    }

    /// One step on one batch. `inputs` may hold more than the function declared.
    ///
    /// # Errors
    /// An input that is missing or of another type than declared, an index out of range. Parameters, states and the
    /// number of steps are as before then.
    pub fn step(&mut self, inputs: &Inputs<'_>) -> Result<StepReport> {
        self.step_on(&[Part::new(1.0, inputs)])
    }

    /// One step on one batch of a layout that [`Trainer::add_step`] was called for.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    ///
    /// # Panics
    /// As [`Trainer::step_on`].
    pub fn step_at(&mut self, shape: BatchShape, inputs: &Inputs<'_>) -> Result<StepReport> {
        self.step_on(&[Part::new(1.0, inputs).at(shape)])
    }

    /// Adds the step for batches of another layout than those before, if there is none yet: `loss` is the trainer's
    /// function for that layout, over the same parameters. It gets along with the memory that is allocated, if it can.
    ///
    /// # Errors
    /// A budget that is too small for it, a graph that the machine's memory cannot hold, and a parameter that the
    /// trainer does not have.
    pub fn add_step(&mut self, shape: BatchShape, loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>) -> Result<()> {
        if self.steps.contains_key(&Some(shape)) {
            return Ok(());
        }
        let (graph, params, _) = step_graph(&self.options, loss)?;
        check_params(self.session.params(), &params)?;
        let function = self.add(&graph, self.options.placement)?;
        self.steps.insert(Some(shape), function);
        Ok(())
    }

    /// Whether [`Trainer::add_step`] was called for a layout, or it is the first one.
    pub fn has_step(&self, shape: BatchShape) -> bool {
        self.steps.contains_key(&Some(shape))
    }

    /// One step on as many batches as the options' `accumulate` says, or on fewer where the data ends; their shares sum
    /// to 1.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    ///
    /// # Panics
    /// Without a batch, with more of them, and with one of a layout that [`Trainer::add_step`] was not called for.
    pub fn step_on(&mut self, batches: &[Part<'_>]) -> Result<StepReport> {
        assert!(
            (1..=self.options.accumulate).contains(&batches.len()),
            "at least one batch, and at most as many as are accumulated"
        );
        let result = self.run_batches(batches);
        if result.is_err() {
            // Batches before the one that failed have added to the sums.
            for name in &self.gradient_sums {
                self.session.clear_state(name)?;
            }
        }
        result
    }

    fn run_batches(&mut self, batches: &[Part<'_>]) -> Result<StepReport> {
        let begun = Instant::now();
        let scheduled = self.done.saturating_sub(self.options.schedule_start);
        let lr = self
            .options
            .schedule
            .lr(usize::try_from(scheduled).unwrap_or(usize::MAX));
        let rate = [lr as f32];
        let numbers = self.step_numbers();
        let mut scalars: Vec<(&str, Host<'_>)> = vec![("lr", Host::F32(&rate))];
        scalars.extend(numbers.iter().map(|(name, number)| (name.as_str(), Host::F32(number))));
        let (mut loss, mut gradient_norm) = (0.0, None);
        for (index, part) in batches.iter().enumerate() {
            let step = self.steps[&part.shape];
            let key = self.key(index);
            let share = [part.share];
            let mut all = scalars.clone();
            all.extend([("key", Host::U32(&key)), ("share", Host::F32(&share))]);
            all.extend_from_slice(part.inputs);
            let results = self.session.run(step, &all)?;
            loss += share[0] * results.scalar("loss").unwrap_or(f32::NAN);
            gradient_norm = results.scalar("gradient_norm");
        }
        if let Some(apply) = self.apply {
            gradient_norm = self.session.run(apply, &scalars)?.scalar("gradient_norm");
        }
        self.done += 1;
        Ok(StepReport {
            step: self.done,
            loss,
            lr,
            gradient_norm,
            time: begun.elapsed(),
        })
    }

    /// The inputs with the number of the step that comes, counted since the parameters joined.
    fn step_numbers(&self) -> Vec<(String, [f32; 1])> {
        let joined: BTreeSet<u64> = self.options.joined.values().copied().chain([0]).collect();
        let number = |joined: u64| [(self.done + 1).saturating_sub(joined) as f32];
        joined
            .into_iter()
            .map(|joined| (steps_input(joined), number(joined)))
            .collect()
    }

    /// Compiles a graph over the same parameters, or over their averages where the options have some, without dropout:
    /// `trace` returns its results by name. It shares the step's memory and its budget.
    ///
    /// # Errors
    /// A parameter that the trainer does not have, a budget that is too small for it, and a graph that the machine's
    /// memory cannot hold.
    pub fn function(
        &mut self,
        trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
    ) -> Result<Function> {
        let graph = function_graph(self.session.params(), self.session.reading(), trace)?;
        self.add(&graph, Placement::default())
    }

    /// Compiles a graph that records statistics of the values that `model`, a function over the same parameters,
    /// observes and `selection` contains. With `training` it has the dropout of the step. See [`Trainer::record`].
    ///
    /// # Errors
    /// As [`Trainer::function`], and a part of the selection that is of no observed value.
    pub fn recording(
        &mut self,
        selection: &Selection,
        training: bool,
        model: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>,
    ) -> Result<Function> {
        let graph = recording_graph(
            self.session.params(),
            self.session.reading(),
            (selection, training),
            model,
        )?;
        self.add(&graph, Placement::default())
    }

    fn add(&mut self, graph: &Graph, placement: Placement) -> Result<Function> {
        let before = self.session.memory();
        let budget = self.options.budget;
        let function = self.session.add(graph, &Options { placement, budget })?;
        let now = self.session.memory();
        self.planned_lasting += now.states - before.states + now.constants - before.constants;
        self.planned_arena = self.planned_arena.max(self.session.plan(function).arena_bytes());
        self.session.keep_arena(self.planned_arena);
        Ok(function)
    }

    /// Runs a function. `inputs` may hold more than it declared.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn run(&mut self, function: Function, inputs: &Inputs<'_>) -> Result<Results<'_>> {
        self.session.run(function, inputs)
    }

    /// Runs a function that records statistics (see [`StepGraphs::with_recording`]) on a batch. Where it has dropout,
    /// that is the dropout of the next step's first batch. Nothing that training depends on changes.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn record(&mut self, function: Function, inputs: &Inputs<'_>) -> Result<Statistics> {
        let key = self.key(0);
        let all: Vec<(&str, Host<'_>)> = [("key", Host::U32(&key))]
            .into_iter()
            .chain(inputs.iter().copied())
            .collect();
        Statistics::of_run(&mut self.session, function, &all)
    }

    /// The random key of batch number `index` of the next step.
    fn key(&self, index: usize) -> [u32; 2] {
        let draw = self.done * self.options.accumulate as u64 + index as u64;
        [folded(self.options.seed), draw as u32]
    }

    /// The functions that were planned together with the step, in order.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The session in which the steps run.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Steps done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The parameters: names, shapes, first values.
    pub fn params(&self) -> &[ParamSpec] {
        self.session.params()
    }

    /// Whether a parameter is trained.
    pub fn trains(&self, name: &str) -> bool {
        self.options.update_rule().trains(name)
    }

    /// The parameters' values.
    ///
    /// # Errors
    /// A device that fails.
    pub fn weights(&self) -> Result<Weights> {
        self.session.weights()
    }

    /// Gives parameters other values; those that `weights` lacks keep theirs.
    ///
    /// # Errors
    /// A name that the model does not have, or a wrong shape.
    pub fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        self.session.set_weights(weights)
    }

    /// The name of a parameter with a value that is NaN or infinite.
    ///
    /// # Errors
    /// A device that fails.
    pub fn broken_parameter(&self) -> Result<Option<&str>> {
        self.session.broken_parameter()
    }

    /// What training remembers beside the parameters: the optimizer's states, and those that the model function
    /// declared, each in its own dtype.
    ///
    /// # Errors
    /// A device that fails.
    pub fn state(&self) -> Result<Vec<StateArray>> {
        self.states.iter().map(|name| self.session.state(name)).collect()
    }

    /// Writes the parameters as a Hugging Face directory with this configuration in this dtype, tensor by tensor.
    ///
    /// # Errors
    /// A folder that cannot be written to, and a number that the dtype does not reach.
    pub fn save(&self, dir: &Path, config_json: &Map<String, Value>, dtype: WeightDtype) -> Result<()> {
        self.session.save(dir, config_json, dtype)
    }

    /// Writes what training remembers beside the parameters, see [`Trainer::state`], to a safetensors file, tensor by
    /// tensor; without `optimizer` the moments and averages are left out. Parameters that [`Trainer::save`] does not
    /// write as they are, rounded to `dtype` or as averages, are in this file, and so are those that are trained beside
    /// a model with adapters. Returns what is in it.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn save_state(&self, path: &Path, dtype: WeightDtype, optimizer: bool) -> Result<Vec<Entry>> {
        let states = self.states.iter().filter(|name| optimizer || !is_of_optimizer(name));
        let names: Vec<String> = states.cloned().chain(self.unsaved_params(dtype)).collect();
        self.session.save_states(path, &names)
    }

    /// The parameters that [`Trainer::save`] does not write as they are.
    fn unsaved_params(&self, dtype: WeightDtype) -> Vec<String> {
        let reading = self.session.reading();
        let is_unsaved = |name: &&String| match reading.lora() {
            Some(lora) => lora.trains(name),
            None => dtype != WeightDtype::F32 || reading.averages(name),
        };
        let names = self.session.params().iter().map(|param| &param.name);
        names.filter(is_unsaved).cloned().collect()
    }

    fn states_and_params(&self) -> Vec<String> {
        let params = self.session.params().iter().map(|param| param.name.clone());
        self.states.iter().cloned().chain(params).collect()
    }

    /// Goes on after `done` steps with what [`Trainer::state`] returned then.
    ///
    /// # Errors
    /// A state that this trainer does not have, lacks, or has in another dtype or shape.
    pub fn resume(&mut self, done: u64, state: &[StateArray]) -> Result<()> {
        let fits = |array: &StateArray| self.states.contains(&array.name) && self.session.has_state(array);
        if state.len() != self.states.len() || !state.iter().all(fits) {
            return Err(other_optimizer());
        }
        state.iter().try_for_each(|array| self.session.set_state(array))?;
        self.done = done;
        Ok(())
    }

    /// Goes on after `done` steps with what [`Trainer::save_state`] wrote then, with `optimizer` as there: without,
    /// moments and averages begin anew.
    ///
    /// # Errors
    /// A state that this trainer does not have, lacks, or has in another dtype or shape; a file that cannot be read.
    pub fn resume_from(&mut self, done: u64, path: &Path, optimizer: bool) -> Result<()> {
        let mut file = TensorFile::open(path)?;
        let found = self.session.load_states(&mut file, &self.states_and_params())?;
        let mut needed: Vec<&String> = self.states.iter().collect();
        needed.retain(|name| optimizer || !is_of_optimizer(name));
        let adapted = match self.session.reading().lora() {
            Some(_) => self.unsaved_params(WeightDtype::F32),
            None => Vec::new(),
        };
        let has_all = needed.into_iter().chain(&adapted).all(|name| found.contains(name));
        if !has_all || found.len() != file.names().len() {
            return Err(other_optimizer());
        }
        self.done = done;
        Ok(())
    }

    /// Goes on after `done` steps of another model with what [`Trainer::save_state`] wrote of it then. States that this
    /// trainer does not have, or in another dtype or shape, are left out; those that it has beside them begin as zeros.
    /// Returns the names of what was read.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn carry_on_from(&mut self, done: u64, path: &Path) -> Result<Vec<String>> {
        let all = self.states_and_params();
        let found = self.session.load_states(&mut TensorFile::open(path)?, &all)?;
        self.done = done;
        Ok(found)
    }

    /// Goes on after `done` steps of another model, in whose session this trainer was made: the states that both have
    /// stay as they are.
    pub fn carry_on_after(&mut self, done: u64) {
        self.done = done;
    }

    /// Ends the training; the session has what it results in: parameters with the values of their averages, and weights
    /// to which adapters have been added.
    ///
    /// # Errors
    /// A device that fails.
    pub fn finish(mut self) -> Result<Session> {
        self.session.finish()?;
        Ok(self.session)
    }

    /// Ends the training; the session has the parameters and the states of training.
    pub fn into_session(self) -> Session {
        self.session
    }

    /// The most bytes of training: parameters, the optimizer's state, constants and the arena.
    pub fn peak(&self) -> Peak {
        let memory = self.session.memory();
        Peak {
            planned: self.planned_lasting + self.planned_arena,
            measured: memory.states + memory.constants + memory.arena,
        }
    }
}

/// Whether a state is of the optimizer, or an average.
fn is_of_optimizer(state: &str) -> bool {
    state.starts_with("optimizer.") || state.starts_with("ema.")
}

fn other_optimizer() -> Error {
    Error::user("the checkpoint is of another optimizer; resume with the settings that it had")
}

/// A seed as one word of a dropout key. Seeds that differ in their high halves alone, or in their low ones alone, give
/// different words: the factor is odd.
fn folded(seed: u64) -> u32 {
    seed as u32 ^ ((seed >> 32) as u32).wrapping_mul(0x9E37_79B9)
}
