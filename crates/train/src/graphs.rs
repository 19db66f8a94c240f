//! The graphs of training: tracing, derivative, update.

use crate::beside::states_of;
use crate::carrier::GroupCarrier;
use crate::dealing::Dealing;
use crate::function_graph::function_graph;
use crate::options::TrainerOptions;
use crate::recording_graph::recording_graph;
use crate::sharding::Sharding;
use crate::step_graph::{Traced, step_graph};
use crate::update_graphs::{
    Delayed, Late, all_or_none, apply_graph, closing_graph, delayed, group_graphs, opened, states_of_updates,
    waiting_graph,
};
use crate::view::ParameterView;
use lessen_base::Result;
use lessen_graph::{Graph, Tensor, Type};
use lessen_nn::names::is_momentary;
use lessen_nn::{BatchShape, Cx, ParamSpec, Selection, StateSpec, UpdateRule};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// The graphs of training before they are compiled.
#[derive(Clone)]
pub struct StepGraphs {
    /// Graph of a micro-batch, of the batch layout `shape` if there is one. With forward-fused updates it begins with
    /// the updates of the step before. Under [`Placement::Planned`](lessen_compile::Placement::Planned) no update is
    /// delayed until plans are made.
    pub step: Graph,
    /// With forward-fused updates: the graphs beside `step`.
    pub delayed: Option<Delayed<Graph>>,
    /// Batch layout of `step`, if the trainer gets steps for several; see [`StepGraphs::with_shape`].
    pub shape: Option<BatchShape>,
    /// With groups of micro-batches, where processes compute several: the graph of the last micro-batch in a step,
    /// which ends in the sum over all processes and the update. Where each computes one, `step` is that graph.
    pub(crate) last: Option<Graph>,
    /// With accumulation: the graph that runs after the last micro-batch. It is the update, or where that is delayed
    /// the norm of the gradient, if a step tells it. With groups it runs where a process has no last micro-batch.
    pub apply: Option<Graph>,
    /// With groups of micro-batches: for each slot, the graph that holds the sums of gradients there, and the one that
    /// adds them.
    pub(crate) groups: Vec<[Graph; 2]>,
    /// Functions over the same parameters that run between the steps, such as an evaluation.
    pub functions: Vec<Graph>,
    /// Whether `step` has all groups of this process, which run side by side.
    pub(crate) side_by_side: bool,
    /// What tells the loss of `step` from others; see [`LossGraph::mark`].
    pub(crate) mark: u64,
    pub(crate) params: Vec<ParamSpec>,
    pub(crate) states: Vec<(String, Type)>,
    pub(crate) gradient_sums: Vec<String>,
    /// With accumulation, the states that every micro-batch assigns beside the sums of gradients.
    pub(crate) carried: Vec<String>,
    pub(crate) view: ParameterView,
    pub(crate) late: Late,
    /// The parameters that plans cut into pieces; none where each process has all of them.
    pub(crate) sharding: Option<Sharding>,
    /// What carries operations of several ranks in the plans.
    pub(crate) carrier: Arc<GroupCarrier>,
}

impl StepGraphs {
    /// Traces the loss and adds derivative and update.
    ///
    /// # Errors
    /// Settings that [`TrainerOptions::check`] refuses, and patterns of names that no parameter fits; shapes that do
    /// not fit each other, a loss that is no scalar and an operation with a wrong derivative, with the line of the
    /// model function; a model without a parameter that is trained.
    pub fn new(options: &TrainerOptions, loss: impl Fn(Cx) -> Tensor) -> Result<StepGraphs> {
        options.check()?;
        let rule = options.update_rule();
        let Traced {
            graph: step,
            last,
            params,
            sums,
            assigned,
            centred,
            side_by_side,
            mark,
        } = step_graph(options, &rule, None, loss)?;
        // Groups that run side by side end in one graph.
        let apply = match side_by_side {
            true => None,
            false => apply_graph(options, &rule, (&params, &centred))?,
        };
        let slots = match side_by_side {
            true => 0..0,
            false => 0..Dealing::of(options.ranks, options.own_groups()).slots,
        };
        let groups = slots.map(|slot| group_graphs(&rule, &params, slot)).collect();
        let mut states: Vec<(String, Type)> = Vec::new();
        let mut known: HashSet<&str> = params.iter().map(|param| param.name.as_str()).collect();
        // Processes that add up nothing have no sums, and none needs them between steps.
        let is_left_out = |name: &str| {
            let is_sum = sums.iter().any(|sum| sum.name == name);
            is_momentary(name) || (is_sum && options.ranks > 1)
        };
        let waiting = waiting_graph(options, &rule, (&params, &centred))?;
        let with_states = std::iter::once(&step).chain(&apply).chain(&last).chain(&waiting);
        for (name, ty) in with_states.flat_map(states_of) {
            if known.insert(name) && !is_left_out(name) {
                states.push((name.to_string(), ty.clone()));
            }
        }
        let (late, step, delayed, apply) = match waiting {
            Some(update) => {
                let (step, delayed) = opened(&update, step)?;
                let apply = match options.ranks {
                    1 => closing_graph(&rule, (&params, &centred))?,
                    _ => apply,
                };
                (states_of_updates(&update), step, Some(delayed), apply)
            }
            None => {
                let late = all_or_none(options, &step);
                let (step, delayed) = delayed(step, &late)?;
                (late, step, delayed, apply)
            }
        };
        Ok(StepGraphs {
            sharding: Sharding::of(options, &params, &centred),
            view: ParameterView::of_training(options, &params, centred),
            late,
            step,
            delayed,
            shape: None,
            last,
            apply,
            groups,
            functions: Vec::new(),
            side_by_side,
            mark,
            params,
            states,
            carrier: Arc::new(GroupCarrier::new(options.group.clone())),
            carried: if options.accumulate > 1 { assigned } else { Vec::new() },
            gradient_sums: sums.into_iter().map(|sum: StateSpec| sum.name).collect(),
        })
    }

    /// Delays the updates of the states in `late`, in graphs that delay no update.
    ///
    /// # Errors
    /// The errors of [`passes::delay`].
    pub(crate) fn with_late(&self, late: Late) -> Result<StepGraphs> {
        let (step, delayed) = delayed(self.step.clone(), &late)?;
        Ok(StepGraphs {
            step,
            delayed,
            late,
            ..self.clone()
        })
    }

    /// The graphs that keep `quarters` quarters of the bytes of parameters in pieces from forward on.
    pub(crate) fn keeping(&self, quarters: usize) -> StepGraphs {
        StepGraphs {
            sharding: self.sharding.as_ref().map(|sharding| sharding.keeping(quarters)),
            ..self.clone()
        }
    }

    /// The graphs of plans, which gather parameters that are in pieces.
    ///
    /// # Errors
    /// Sizes that cannot be counted.
    pub(crate) fn sharded(&self) -> Result<Cow<'_, StepGraphs>> {
        let Some(sharding) = &self.sharding else {
            return Ok(Cow::Borrowed(self));
        };
        let of = |graph: &Graph| sharding.sharded(graph);
        let delayed = self.delayed.as_ref().map(|Delayed { first, flush }| {
            let (first, flush) = (of(first)?, of(flush)?);
            Ok(Delayed { first, flush })
        });
        Ok(Cow::Owned(StepGraphs {
            step: of(&self.step)?,
            delayed: delayed.transpose()?,
            last: self.last.as_ref().map(of).transpose()?,
            apply: self.apply.as_ref().map(of).transpose()?,
            functions: self.functions.iter().map(of).collect::<Result<_>>()?,
            ..self.clone()
        }))
    }

    /// Sets the batch layout of the step: the layout of the largest batches. Steps for other layouts follow with
    /// [`Trainer::add_step`](crate::Trainer::add_step), in the memory of this step.
    pub fn with_shape(mut self, shape: BatchShape) -> StepGraphs {
        self.shape = Some(shape);
        self
    }

    /// Adds a function over the same parameters, without dropout: `trace` returns its results by name. It runs in the
    /// same arena as the step, and the budget is for both.
    ///
    /// # Errors
    /// Shapes that do not fit each other, with the line of the function, and a parameter that the step does not have.
    pub fn with_function<N: Into<String>>(mut self, trace: impl Fn(Cx) -> Vec<(N, Tensor)>) -> Result<StepGraphs> {
        self.functions.push(function_graph(&self.params, &self.view, trace)?);
        Ok(self)
    }

    /// Adds a function that records statistics of the observed values of `model` that `selection` contains; `model` is
    /// the function of the loss or another one over the same parameters. See
    /// [`Trainer::record`](crate::Trainer::record). With `training` it has the dropout of the step. The graph of the
    /// step does not change.
    ///
    /// # Errors
    /// A part of the selection that names no observed value; a parameter that the step does not have.
    pub fn with_recording(
        mut self,
        selection: &Selection,
        training: bool,
        model: impl Fn(Cx) -> Tensor,
    ) -> Result<StepGraphs> {
        let context = |trace| self.view.of_step(Cx::recording(trace, training, selection));
        let graph = recording_graph(&self.params, context, model)?;
        self.functions.push(graph);
        Ok(self)
    }
}

/// The graphs of a step for another batch layout, whose updates are delayed as those of the first one.
///
/// # Errors
/// The errors of [`delayed`] and [`waiting_graph`].
pub(crate) fn another_step(
    options: &TrainerOptions,
    rule: &UpdateRule,
    traced: Traced,
    late: &Late,
) -> Result<(Graph, Option<Delayed<Graph>>)> {
    match waiting_graph(options, rule, (&traced.params, &traced.centred))? {
        Some(update) => opened(&update, traced.graph).map(|(step, delayed)| (step, Some(delayed))),
        None => delayed(traced.graph, late),
    }
}
