//! Functions that run between the steps, over the same parameters: evaluations, and recordings of statistics.

use super::Trainer;
use crate::function_graph::function_graph;
use crate::inputs::check_once;
use crate::recording_graph::recording_graph;
use crate::session::{Function, Inputs, Results};
use crate::statistics::Statistics;
use lessen_base::Result;
use lessen_compile::{Options, Placement};
use lessen_device::Host;
use lessen_graph::{Graph, Tensor};
use lessen_nn::names::KEY;
use lessen_nn::{Cx, Selection};

impl Trainer {
    /// Compiles a function over the same parameters, or over their averages if the options have some, without dropout:
    /// `trace` returns its results by name. It shares the step's memory and its budget.
    ///
    /// # Errors
    /// A parameter that the trainer does not have, a budget that is too small for it, and a graph that the machine's
    /// memory cannot hold.
    pub fn function<N: Into<String>>(&mut self, trace: impl Fn(Cx) -> Vec<(N, Tensor)>) -> Result<Function> {
        let graph = function_graph(self.session.params(), self.session.view(), trace)?;
        self.add(&graph, Placement::default())
    }

    /// The functions that were planned together with the step, in order.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Runs a function. `inputs` may hold more than it declared. Random numbers are other ones at every run, as
    /// [`Session::set_seed`](crate::Session::set_seed) says, and begin with the seed of the options.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn run(&mut self, function: Function, inputs: &Inputs<'_>) -> Result<Results> {
        check_once(inputs)?;
        self.flush()?;
        self.session.run(function, inputs)
    }

    /// Compiles a function that records statistics of the observed values of `model`, a function over the same
    /// parameters, that `selection` contains. With `training` it has the dropout of the step. See [`Trainer::record`].
    ///
    /// # Errors
    /// As [`Trainer::function`], and a part of the selection that names no observed value.
    pub fn recording(
        &mut self,
        selection: &Selection,
        training: bool,
        model: impl Fn(Cx) -> Tensor,
    ) -> Result<Function> {
        let view = self.session.view();
        let context = |trace| view.of_step(Cx::recording(trace, training, selection));
        let graph = recording_graph(self.session.params(), context, model)?;
        self.add(&graph, Placement::default())
    }

    /// Compiles a function whose results are the observed values of `model` themselves that `selection` contains, by
    /// their names and in their types, as [`Cx::observe`] names them; otherwise as [`Trainer::recording`]. Values are
    /// whole: places that [`Cx::observe_where`] leaves out are in them.
    ///
    /// # Errors
    /// As [`Trainer::recording`].
    pub fn observing(
        &mut self,
        selection: &Selection,
        training: bool,
        model: impl Fn(Cx) -> Tensor,
    ) -> Result<Function> {
        let view = self.session.view();
        let context = |trace| view.of_step(Cx::observing(trace, training, selection));
        let graph = recording_graph(self.session.params(), context, model)?;
        self.add(&graph, Placement::default())
    }

    /// Runs a function of [`Trainer::observing`] on a batch; [`Session::result_type`](crate::Session::result_type) has
    /// the shapes of its results. If it has dropout, that is the dropout of the next step's first micro-batch. It
    /// changes nothing of the training.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn observe(&mut self, function: Function, inputs: &Inputs<'_>) -> Result<Results> {
        self.flush()?;
        let key = self.first.key(0);
        let all = with_key(&key, inputs);
        check_once(&all)?;
        self.session.run(function, &all)
    }

    /// Runs a function that records statistics (see [`StepGraphs::with_recording`](crate::StepGraphs::with_recording))
    /// on a batch. If it has dropout, that is the dropout of the next step's first micro-batch. It changes nothing of
    /// the training.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn record(&mut self, function: Function, inputs: &Inputs<'_>) -> Result<Statistics> {
        self.flush()?;
        let key = self.first.key(0);
        let all = with_key(&key, inputs);
        check_once(&all)?;
        Statistics::of_run(&self.session, function, &all)
    }

    pub(super) fn add(&mut self, graph: &Graph, placement: Placement) -> Result<Function> {
        let before = self.session.lasting_bytes();
        let options = Options {
            placement,
            ..(self.first.options).of_plans(self.first.options.budget, &self.first.carrier)
        };
        let function = self.session.add(graph, &options)?;
        self.planned_lasting += self.session.lasting_bytes() - before;
        self.planned_arena = self.planned_arena.max(self.session.plan(function)?.arena_bytes());
        self.session.keep_arena(self.planned_arena);
        Ok(function)
    }
}

/// Inputs with the random key before them.
fn with_key<'a>(key: &'a [u32; 2], inputs: &Inputs<'a>) -> Vec<(&'a str, Host<'a>)> {
    let key = std::iter::once((KEY, Host::U32(key)));
    key.chain(inputs.iter().copied()).collect()
}
