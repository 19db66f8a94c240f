//! The graphs of training: tracing, derivative, update.

use crate::norms;
use crate::options::TrainerOptions;
use crate::reading::Reading;
use crate::recording::recording_graph;
use lessen_base::{Error, Result};
use lessen_compile::{Placement, passes};
use lessen_graph::{DType, Graph, InputKind, Tensor, Trace, Type};
use lessen_nn::{BatchShape, Centred, Context, ParamSpec, Selection, StateSpec, Update, UpdateRule, optimizer};
use std::collections::BTreeSet;

/// The name of the step's result.
const LOSS: &str = "loss";

/// The graphs of training before they are compiled.
#[derive(Clone)]
pub struct StepGraphs {
    /// The graph that runs for every batch, or for those of the layout `shape`. With forward-fused updates it begins
    /// with these updates of the step before. Under [`Placement::Planned`] none is, until plans are made.
    pub step: Graph,
    /// With forward-fused updates, the graphs beside it.
    pub delayed: Option<Delayed<Graph>>,
    /// The layout of the batches, if the step runs for several; see [`StepGraphs::with_shape`].
    pub shape: Option<BatchShape>,
    /// With accumulation, the graph that updates after the last batch.
    pub apply: Option<Graph>,
    /// Functions over the same parameters that run between the steps, such as an evaluation.
    pub functions: Vec<Graph>,
    pub(crate) params: Vec<ParamSpec>,
    pub(crate) states: Vec<(String, Type)>,
    pub(crate) gradient_sums: Vec<String>,
    pub(crate) reading: Reading,
    pub(crate) late: Late,
}

/// Names of the states whose updates are delayed to the next step.
pub(crate) type Late = BTreeSet<String>;

/// What runs beside the step where its update is that of the step before: graphs, or their plans.
#[derive(Clone)]
pub struct Delayed<T> {
    /// The step where no update waits: the first one, and those behind a use of the parameters.
    pub first: T,
    /// The update that waits, before the parameters are used.
    pub flush: T,
}

impl<T> Delayed<T> {
    /// Both of them.
    pub fn all(&self) -> [&T; 2] {
        [&self.first, &self.flush]
    }
}

impl StepGraphs {
    /// Traces the loss and adds derivative and update.
    ///
    /// # Errors
    /// Shapes that do not fit each other and a loss that is no scalar, with the line of the model function;
    /// forward-fused updates of gradients that are accumulated.
    pub fn new(options: &TrainerOptions, loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>) -> Result<StepGraphs> {
        let Traced {
            graph: step,
            params,
            sums,
            centred,
        } = step_graph(options, None, loss)?;
        let apply = (options.accumulate > 1).then(|| {
            let trace = Trace::new();
            let cx = Context::new(&trace, true);
            let rule = UpdateRule {
                centred: centred.clone(),
                ..options.update_rule()
            };
            finish_update(&trace, optimizer::apply(&cx, &params, &rule));
            drop(cx);
            trace.finish()
        });
        let mut states: Vec<(String, Type)> = Vec::new();
        for (name, ty) in std::iter::once(&step).chain(&apply).flat_map(states_of) {
            let known = params.iter().any(|param| param.name == name) || states.iter().any(|(state, _)| state == name);
            if !known {
                states.push((name.to_string(), ty.clone()));
            }
        }
        let late = all_or_none(options, &step)?;
        let (step, delayed) = delayed(step, &late)?;
        Ok(StepGraphs {
            reading: Reading::of(options, &params, centred),
            late,
            step,
            delayed,
            shape: None,
            apply,
            functions: Vec::new(),
            params,
            states,
            gradient_sums: sums.into_iter().map(|sum: StateSpec| sum.name).collect(),
        })
    }

    /// The same with the updates of these states delayed, of graphs that delay none.
    ///
    /// # Errors
    /// As of [`passes::delay`].
    pub(crate) fn with_late(&self, late: Late) -> Result<StepGraphs> {
        let (step, delayed) = delayed(self.step.clone(), &late)?;
        Ok(StepGraphs {
            step,
            delayed,
            late,
            ..self.clone()
        })
    }

    /// Says that the step is traced for batches of this layout. It is then that of the largest batches: others follow
    /// with [`Trainer::add_step`](crate::Trainer::add_step), in the memory that this one takes.
    pub fn with_shape(mut self, shape: BatchShape) -> StepGraphs {
        self.shape = Some(shape);
        self
    }

    /// Adds a function over the same parameters, without dropout: `trace` returns its results by name. It runs in the
    /// same arena as the step, and the budget is for both.
    ///
    /// # Errors
    /// Shapes that do not fit each other, with the line of the function, and a parameter that the step does not have.
    pub fn with_function(
        mut self,
        trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
    ) -> Result<StepGraphs> {
        self.functions.push(function_graph(&self.params, &self.reading, trace)?);
        Ok(self)
    }

    /// Adds a function that records statistics of the values that `model`, the function of the loss or another one over
    /// the same parameters, observes and `selection` contains; see [`Trainer::record`](crate::Trainer::record). With
    /// `training` it has the dropout of the step. The step's own graph stays as it is.
    ///
    /// # Errors
    /// A part of the selection that is of no observed value; a parameter that the step does not have.
    pub fn with_recording(
        mut self,
        selection: &Selection,
        training: bool,
        model: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>,
    ) -> Result<StepGraphs> {
        let graph = recording_graph(&self.params, &self.reading, (selection, training), model)?;
        self.functions.push(graph);
        Ok(self)
    }
}

/// The graph of a step, and what it is made of.
pub(crate) struct Traced {
    pub graph: Graph,
    pub params: Vec<ParamSpec>,
    /// With accumulation, the sums of gradients.
    pub sums: Vec<StateSpec>,
    /// The parameters that stay recentred.
    pub centred: Centred,
}

/// Traces the loss, converts its norms, and adds derivative and update, or with accumulation the sums of gradients. Of
/// a step for another layout, the parameters that stay recentred are known.
///
/// # Errors
/// Shapes that do not fit each other and a loss that is no scalar, with the line of the model function; norms without a
/// mean that the model does not have.
pub(crate) fn step_graph(
    options: &TrainerOptions,
    known: Option<&Centred>,
    loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>,
) -> Result<Traced> {
    let trace = Trace::new();
    let cx = Context::new(&trace, true).with_lora(options.lora.as_ref());
    let value = trace.attempt(|| loss(&cx))?;
    check_loss(value)?;
    trace.output(LOSS, value);
    let params = cx.params();
    drop(cx);
    let (graph, centred) = norms::of_step(trace.finish(), &params, options.norm, known)?;

    let trace = Trace::of(graph);
    let params = declared_in(&trace, params);
    let value = trace.with_graph(|graph| graph.outputs.iter().find(|output| output.name == LOSS).map(|o| o.value));
    let value = trace.tensor(value.ok_or_else(|| Error::internal("a graph without its loss"))?);
    let cx = Context::resumed(&trace, true, params.clone());
    let rule = UpdateRule {
        centred: centred.clone(),
        ..options.update_rule()
    };
    let sums = if options.accumulate > 1 {
        optimizer::accumulate(&cx, value, &rule)
    } else {
        finish_update(&trace, optimizer::update(&cx, value, &rule));
        Vec::new()
    };
    drop(cx);
    Ok(Traced {
        graph: trace.finish(),
        params,
        sums,
        centred,
    })
}

/// The parameters with their states in this trace, which may lack those that nothing reads.
fn declared_in(trace: &Trace, params: Vec<ParamSpec>) -> Vec<ParamSpec> {
    let found = |name: &str| {
        let value = |graph: &Graph| {
            graph
                .inputs
                .iter()
                .find(|input| input.name == name)
                .map(|input| input.value)
        };
        trace.with_graph(value)
    };
    let declared = params.into_iter().map(|param| {
        let declare = || trace.state(&param.name, DType::F32, &param.shape).id();
        let value = found(&param.name).unwrap_or_else(declare);
        ParamSpec { value, ..param }
    });
    declared.collect()
}

/// The states whose updates are delayed whatever plans say: all of them, or none.
///
/// # Errors
/// Forward-fused updates of gradients that are accumulated.
fn all_or_none(options: &TrainerOptions, step: &Graph) -> Result<Late> {
    if options.placement != Placement::ForwardFused {
        return Ok(Late::new());
    }
    if options.accumulate > 1 {
        return Err(Error::user(
            "forward-fused updates do not go with gradients that are accumulated; place updates in the same step, or make \
             each step of one batch",
        ));
    }
    Ok(passes::updates(step)
        .into_iter()
        .flat_map(|update| update.states)
        .collect())
}

/// The graph of a step with the updates of these states delayed, and the graphs beside it.
///
/// # Errors
/// As of [`passes::delay`].
pub(crate) fn delayed(step: Graph, late: &Late) -> Result<(Graph, Option<Delayed<Graph>>)> {
    if late.is_empty() {
        return Ok((step, None));
    }
    let passes::Delayed { first, step, flush, .. } = passes::delay(&step, &|state| late.contains(state))?;
    Ok((step, Some(Delayed { first, flush })))
}

/// Refuses a loss that has no gradient.
fn check_loss(loss: Tensor<'_>) -> Result<()> {
    let ty = loss.ty();
    let what = match () {
        () if !ty.dtype.is_float() => format!("the loss is of type {ty}, which has no gradient; return a float scalar"),
        () if ty.numel() != 1 => {
            format!("the loss is of type {ty}, but it must be a scalar; end it with .mean() or .sum()")
        }
        () => return Ok(()),
    };
    let error = Error::user(what);
    Err(match loss.trace().place_of(loss) {
        Some(place) => error.at(place),
        None => error,
    })
}

/// The graph of a function over these parameters, without dropout: `trace` returns its results by name.
///
/// # Errors
/// Shapes that do not fit each other, with the line of the function, and a parameter that is not among `params`.
pub(crate) fn function_graph(
    params: &[ParamSpec],
    reading: &Reading,
    trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
) -> Result<Graph> {
    let (graph, own) = traced(reading, trace)?;
    check_params(params, &own)?;
    Ok(reading.converted(graph))
}

/// The graph of a function without dropout, and the parameters that it declares.
///
/// # Errors
/// Shapes that do not fit each other, with the line of the function.
pub(crate) fn traced(
    reading: &Reading,
    trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
) -> Result<(Graph, Vec<ParamSpec>)> {
    let builder = Trace::new();
    let cx = reading.of_results(Context::new(&builder, false));
    builder.attempt(|| {
        for (name, value) in trace(&cx) {
            builder.output(name, value);
        }
    })?;
    let params = cx.params();
    drop(cx);
    Ok((builder.finish(), params))
}

/// Refuses a parameter of a graph, one of `own`, that is not among `params`.
pub(crate) fn check_params(params: &[ParamSpec], own: &[ParamSpec]) -> Result<()> {
    let is_known = |param: &ParamSpec| {
        let same = |known: &ParamSpec| known.name == param.name && known.shape == param.shape;
        params.iter().any(same)
    };
    match own.iter().find(|param| !is_known(param)) {
        None => Ok(()),
        Some(ParamSpec { name, shape, .. }) => Err(Error::user(format!(
            "the model has no parameter `{name}` of shape {shape:?}"
        ))),
    }
}

/// Names and types of the states that a graph reads or writes.
pub(crate) fn states_of(graph: &Graph) -> impl Iterator<Item = (&str, &Type)> {
    let states = graph.inputs.iter().filter(|input| input.kind == InputKind::State);
    states.map(|input| (input.name.as_str(), graph.ty(input.value)))
}

fn finish_update(trace: &Trace, update: Update<'_>) {
    if let Some(norm) = update.gradient_norm {
        trace.output("gradient_norm", norm);
    }
}
