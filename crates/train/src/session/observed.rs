//! The observed values of a model function, and the types of results.

use super::{Function, Session};
use crate::recording_graph::recording_graph;
use lessen_base::{Error, Result};
use lessen_graph::{Tensor, Type};
use lessen_nn::{Cx, Selection};

impl Session {
    /// Compiles a function whose results are the values of `model`, a function over the parameters, that it names with
    /// [`Cx::observe`] and `selection` contains: by these names, in their types, and whole, without dropout.
    /// [`Session::run`] runs it.
    ///
    /// # Errors
    /// As [`Session::function`], and a part of the selection that names no observed value.
    ///
    /// ```
    /// use lessen_cpu::CpuBackend;
    /// use lessen_device::Host;
    /// use lessen_graph::{DType, Tensor};
    /// use lessen_nn::{Cx, Init, Selection};
    /// use lessen_train::{Trainer, TrainerOptions};
    ///
    /// fn loss(cx: Cx) -> Tensor {
    ///     let hidden = cx.param("a", &[1], Init::Constant(2.0)) * cx.input("x", DType::F32, &[3]);
    ///     cx.observe("hidden", &[], hidden);
    ///     hidden.mean()
    /// }
    ///
    /// let trainer = Trainer::new(Box::new(CpuBackend::new(1)?), TrainerOptions::new(0.1), loss)?;
    /// let mut session = trainer.finish()?;
    /// let ask = session.observing(&Selection::all(), loss)?;
    /// let results = session.run(ask, &[("x", Host::F32(&[1.0, 2.0, 3.0]))])?;
    /// assert_eq!(results.f32("hidden")?, [2.0, 4.0, 6.0]);
    /// assert_eq!(session.result_type(ask, "hidden")?.shape[..], [3]);
    /// # Ok::<(), lessen_train::Error>(())
    /// ```
    pub fn observing(&mut self, selection: &Selection, model: impl Fn(Cx) -> Tensor) -> Result<Function> {
        let context = |trace| self.view.of_results(Cx::observing(trace, false, selection));
        let graph = recording_graph(&self.params, context, model)?;
        self.add(&self.view.converted(graph), &self.options())
    }

    /// The type of a function's result: dtype and shape.
    ///
    /// # Errors
    /// A function of another session, or one that has been freed; a name that no result has.
    pub fn result_type(&self, function: Function, name: &str) -> Result<Type> {
        let plan = self.plan(function)?;
        let (graph, mut outputs) = (plan.graph(), plan.graph().outputs.iter());
        let found = outputs.find(|output| output.name == name);
        let found = found.ok_or_else(|| Error::user(format!("the function has no result `{name}`")))?;
        Ok(graph.ty(found.value).clone())
    }
}
