//! Training of an exported program: plans, steps for each layout of batches, functions, parameters.

use lessen_base::{Error, Result};
use lessen_device::{Host, HostArray, SharedDevice};
use lessen_graph::{Array, Type};
use lessen_nn::{BatchShape, Cx};
use lessen_train::{Function, Session, StateArray, StepGraphs, StepPlans, StepReport, Trainer};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::program::{ExportedProgram, InputRole};
use crate::settings::TrainingSettings;
use crate::tracer::{TraceValues, Traced, data_name, trace};
use crate::value::Value;

/// A part of a batch: its type and its elements.
pub struct Batch {
    /// The types, in the order of the program's data.
    pub types: Vec<Type>,
    /// The elements.
    pub arrays: Vec<HostArray>,
}

impl Batch {
    /// The parts by the names of data inputs.
    fn inputs<'a>(&'a self, names: &'a [String]) -> Vec<(&'a str, Host<'a>)> {
        let arrays = self.arrays.iter().map(HostArray::host);
        names.iter().map(String::as_str).zip(arrays).collect()
    }
}

/// A function of a program: predictions, or a loss without an update.
struct Ask {
    function: Function,
    types: Vec<Type>,
}

/// A module in training.
pub struct Training {
    trainer: Trainer,
    settings: TrainingSettings,
    constants: BTreeMap<String, Arc<Array>>,
    states: BTreeSet<String>,
    /// The layout by which the trainer knows a program and the types of a batch.
    layouts: HashMap<(usize, Vec<Type>), BatchShape>,
    asks: HashMap<(usize, Vec<Type>), Ask>,
    counters: BTreeMap<String, f64>,
    summary: Summary,
}

/// What is planned, for pages and JSON.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Bytes of states, constants, results and arena.
    pub peak_bytes: usize,
    /// Bytes of parameters, buffers and optimizer states.
    pub state_bytes: usize,
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// Seconds of a step, as the planner estimates them.
    pub estimated_seconds: f64,
    /// Seconds of tracing and compiling.
    pub compile_seconds: f64,
    /// Parameters and buffers.
    pub states: usize,
    /// How parts of the module are traced where there are several ways.
    pub notes: Vec<String>,
}

/// Traces a program for a batch; a mistake ends the trace with its sentence.
#[track_caller]
fn traced(program: &ExportedProgram, cx: Cx, values_of_trace: TraceValues<'_>) -> Traced {
    trace(program, cx, values_of_trace).unwrap_or_else(|error| {
        FOUND.with_borrow_mut(|found| *found = Some(error.clone()));
        cx.trace().fail(error.to_string())
    })
}

thread_local! {
    /// The mistake that ended the last trace, whose sentence has the user's line in place of one of this file.
    static FOUND: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// The mistake that ended a trace in place of what the trainer makes of it.
fn described<T>(result: Result<T>) -> Result<T> {
    let found = FOUND.take();
    result.map_err(|error| found.unwrap_or(error))
}

/// The loss of a program, a scalar.
#[track_caller]
fn loss_of(
    program: &ExportedProgram,
    cx: Cx,
    values_of_trace: TraceValues<'_>,
    told: &RefCell<Option<Traced>>,
) -> lessen_graph::Tensor {
    let traced = traced(program, cx, values_of_trace);
    let Some(Value::Tensor(loss)) = traced.outputs.first().cloned() else {
        cx.trace()
            .fail("the module gives no loss; return a scalar, or give loss= to lessen.compile");
    };
    *told.borrow_mut() = Some(traced);
    if loss.ty().numel() == 1 {
        loss.reshape(&[])
    } else {
        loss
    }
}

impl Training {
    /// Plans the training of a program on batches of these types, and gives parameters and buffers their values.
    ///
    /// # Errors
    /// What [`trace`] refuses; settings out of range; a budget below the floor, with the floor; memory that the machine
    /// does not have.
    pub fn new(
        device: impl Into<SharedDevice>,
        settings: TrainingSettings,
        program: &ExportedProgram,
        types: &[Type],
        values: BTreeMap<String, Arc<Array>>,
    ) -> Result<Training> {
        let begun = std::time::Instant::now();
        let device = device.into();
        let changed = program.changed_buffers().into_iter().map(String::from);
        let parameters = program
            .inputs_of(InputRole::Parameter)
            .map(|input| input.target.clone());
        let states: BTreeSet<String> = parameters.chain(changed).collect();
        let settings = settings.used(&states);
        let trained: BTreeSet<&String> = settings.groups.iter().flat_map(|group| &group.params).collect();
        let parameters = program.inputs_of(InputRole::Parameter).map(|input| &input.target);
        let frozen: Vec<String> = parameters.filter(|name| !trained.contains(name)).cloned().collect();
        let (options, rates) = settings.options(frozen)?;
        let told = RefCell::new(None);
        let values_of_trace = TraceValues {
            batch: types,
            constants: &values,
            states: &states,
        };
        let layout = layout(0);
        let graphs = described(StepGraphs::new(&options, |cx| {
            loss_of(program, cx, values_of_trace, &told)
        }))?;
        let graphs = graphs.with_shape(layout);
        let plans = StepPlans::new(&device, &options, &graphs)?;
        drop(graphs);
        device.memory().check(plans.peak_bytes())?;
        let told = told.into_inner();
        let (counters, notes) = told.map(|told| (told.counters, told.notes)).unwrap_or_default();
        let summary = Summary {
            peak_bytes: plans.peak_bytes(),
            state_bytes: plans.state_bytes(),
            arena_bytes: plans.arena_bytes(),
            estimated_seconds: plans.step.estimated_seconds(),
            compile_seconds: begun.elapsed().as_secs_f64(),
            states: plans.params.len(),
            notes,
        };
        let mut session = Session::zeros(&device, plans.params.clone())?;
        for name in &states {
            if let Some(array) = values.get(name) {
                let numbers: Vec<f32> = array.data.iter().map(|x| *x as f32).collect();
                session.set_part(name, 0, &numbers)?;
            }
        }
        let mut trainer = Trainer::from_plans(session, options, plans)?;
        trainer.set_rates(&rates)?;
        let is_constant = |(name, _): &(String, Arc<Array>)| !states.contains(name);
        Ok(Training {
            trainer,
            settings,
            constants: values.into_iter().filter(is_constant).collect(),
            states,
            layouts: HashMap::from([((0, types.to_vec()), layout)]),
            asks: HashMap::new(),
            counters,
            summary,
        })
    }

    /// What is planned.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Planned and measured bytes.
    pub fn peak(&self) -> lessen_train::Peak {
        self.trainer.peak()
    }

    /// Steps done.
    pub fn done(&self) -> u64 {
        self.trainer.done()
    }

    /// Whole numbers by which a step moves buffers that count.
    pub fn counters(&self) -> &BTreeMap<String, f64> {
        &self.counters
    }

    /// Names of parameters and buffers that are states.
    pub fn states(&self) -> &BTreeSet<String> {
        &self.states
    }

    /// States of the optimizer: names such as `optimizer.m.head.weight`, with their elements.
    ///
    /// # Errors
    /// A device that fails.
    pub fn moments(&mut self) -> Result<BTreeMap<String, Vec<f32>>> {
        let floats = |state: StateArray| match state.data {
            HostArray::F32(data) => Some((state.name, data)),
            _ => None,
        };
        Ok(self.trainer.state()?.into_iter().filter_map(floats).collect())
    }

    /// Continues after `done` steps with states of the optimizer; those that are not given stay as they are.
    ///
    /// # Errors
    /// A state that the optimizer does not have, or that has another number of elements.
    pub fn carry_on(&mut self, done: u64, mut moments: BTreeMap<String, Vec<f32>>) -> Result<()> {
        let mut states = self.trainer.state()?;
        for state in &mut states {
            if let Some(data) = moments.remove(&state.name) {
                state.data = HostArray::F32(data);
            }
        }
        if let Some(name) = moments.keys().next() {
            return Err(Error::user(format!(
                "the optimizer has no state `{name}`; give a new one"
            )));
        }
        self.trainer.resume(done, &states)
    }

    /// Sets the learning rates of the groups for the steps that come.
    ///
    /// # Errors
    /// A rate that is negative or not finite.
    pub fn set_rates(&mut self, of_groups: &[f64]) -> Result<()> {
        let rates = self.settings.rates(of_groups);
        self.trainer.set_rates(&rates)
    }

    /// Whether there is a step for a program and the types of a batch.
    pub fn has_step(&self, number: usize, types: &[Type]) -> bool {
        self.layouts.contains_key(&(number, types.to_vec()))
    }

    /// One step on a batch, for whose types a step is planned where there is none yet. Programs are told apart by their
    /// numbers.
    ///
    /// # Errors
    /// As [`Training::new`]; an index out of range. Parameters and states are as before then.
    pub fn step(&mut self, (number, program): (usize, &ExportedProgram), batch: &Batch) -> Result<StepReport> {
        let key = (number, batch.types.clone());
        let shape = match self.layouts.get(&key) {
            Some(shape) => *shape,
            None => {
                let shape = layout(self.layouts.len());
                let told = RefCell::new(None);
                let values_of_trace = TraceValues {
                    batch: &batch.types,
                    constants: &self.constants,
                    states: &self.states,
                };
                let added = self
                    .trainer
                    .add_step(shape, |cx| loss_of(program, cx, values_of_trace, &told));
                described(added)?;
                self.layouts.insert(key, shape);
                shape
            }
        };
        let names = data_names(program);
        self.trainer.step_at(shape, &batch.inputs(&names))
    }

    /// The results of a program on a batch, without dropout and without an update. Programs are told apart by their
    /// numbers.
    ///
    /// # Errors
    /// As [`Training::step`].
    pub fn ask(
        &mut self,
        (number, program): (usize, &ExportedProgram),
        batch: &Batch,
    ) -> Result<Vec<(Type, HostArray)>> {
        let key = (number, batch.types.clone());
        if !self.asks.contains_key(&key) {
            let types = RefCell::new(Vec::new());
            let values_of_trace = TraceValues {
                batch: &batch.types,
                constants: &self.constants,
                states: &self.states,
            };
            let function = self.trainer.function(|cx| {
                let traced = traced(program, cx, values_of_trace);
                let tensors = traced.outputs.into_iter().filter_map(|value| match value {
                    Value::Tensor(tensor) => Some(tensor),
                    _ => None,
                });
                let tensors: Vec<_> = tensors.collect();
                *types.borrow_mut() = tensors.iter().map(|tensor| tensor.ty()).collect();
                let named = tensors.into_iter().enumerate();
                named.map(|(place, tensor)| (place.to_string(), tensor)).collect()
            });
            let (function, types) = (described(function)?, types.into_inner());
            self.asks.insert(key.clone(), Ask { function, types });
        }
        let names = data_names(program);
        let ask = &self.asks[&key];
        let results = self.trainer.run(ask.function, &batch.inputs(&names))?;
        let typed = ask.types.iter().enumerate();
        typed
            .map(|(place, ty)| Ok((ty.clone(), HostArray::from(results.get(&place.to_string())?))))
            .collect()
    }

    /// Values of parameters and buffers that other programs read and the step does not.
    pub fn add_constants(&mut self, values: BTreeMap<String, Arc<Array>>) {
        let new = values.into_iter().filter(|(name, _)| !self.states.contains(name));
        self.constants.extend(new);
    }

    /// The values of a parameter or buffer.
    ///
    /// # Errors
    /// A name that is no state; a device that fails.
    pub fn value(&mut self, name: &str) -> Result<Vec<f32>> {
        self.trainer.session()?.weight(name)
    }

    /// Gives a parameter or buffer other values.
    ///
    /// # Errors
    /// A name that is no state, another number of values.
    pub fn set_value(&mut self, name: &str, values: &[f32]) -> Result<()> {
        self.trainer.session()?.set_part(name, 0, values)
    }
}

/// The names of a program's data inputs.
fn data_names(program: &ExportedProgram) -> Vec<String> {
    program
        .inputs_of(InputRole::Data)
        .map(|input| data_name(&input.target))
        .collect()
}

/// The layout that stands for number `number`: a trainer tells layouts apart by them alone.
fn layout(number: usize) -> BatchShape {
    BatchShape::Padded {
        size: number,
        length: 0,
    }
}
