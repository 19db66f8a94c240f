//! A step of training: one micro-batch or several, whose gradients are summed, and one update.

use super::Trainer;
use super::part::{Part, StepReport};
use super::steps::StepFunctions;
use crate::exchanges::Exchanges;
use crate::function_graph::check_params;
use crate::graphs::another_step;
use crate::session::Inputs;
use crate::step_graph::{loss_graph, step_graph};
use lessen_base::{Error, Result};
use lessen_graph::{Graph, Tensor};
use lessen_nn::{BatchShape, Cx};

impl Trainer {
    /// One step on one batch. `inputs` may hold more than the function declared.
    ///
    /// # Errors
    /// An input that is missing, given twice or of another type than declared, an index out of range, a learning rate
    /// that is not finite. Parameters, states and the number of steps are as before then. A loss that is not finite, as
    /// [`NonFinite`](crate::NonFinite) says.
    pub fn step(&mut self, inputs: &Inputs<'_>) -> Result<StepReport> {
        self.step_on(&[Part::new(1.0, inputs)])
    }

    /// One step on one batch of a batch layout for which [`Trainer::add_step`] was called.
    ///
    /// # Errors
    /// As [`Trainer::step_on`].
    pub fn step_at(&mut self, shape: BatchShape, inputs: &Inputs<'_>) -> Result<StepReport> {
        self.step_on(&[Part::new(1.0, inputs).at(shape)])
    }

    /// One step on as many micro-batches as `accumulate` of the options says, or on fewer where the data ends; their
    /// shares sum to 1. Where several processes share the steps, each gives the micro-batches
    /// [`TrainerOptions::own_batches`](crate::TrainerOptions::own_batches), whose shares sum to 1 over all processes.
    ///
    /// # Errors
    /// As [`Trainer::step`]; no batch, or more of them than are accumulated; a share that is not finite; a layout that
    /// [`Trainer::add_step`] was not called for. Everything is as before then.
    pub fn step_on(&mut self, batches: &[Part<'_>]) -> Result<StepReport> {
        self.check_whole()?;
        self.first.step(&mut self.session, batches)
    }

    /// The shares in the loss of this process's micro-batches of the next step, whose weights these are: those of all
    /// processes sum to 1, as each weighs by the sum of all weights. A mistake of one process is the error of all.
    ///
    /// # Errors
    /// The mistake that a process gives in place of weights; a process that does not answer.
    pub fn shares(&self, weights: Result<Vec<f64>>) -> Result<Vec<f32>> {
        let options = &self.first.options;
        options
            .group
            .set_place(&format!("step {}", self.done().saturating_add(1)));
        let all = options.group.agree_numbers("the batches", weights)?;
        let whole: f64 = all.iter().flatten().sum();
        let whole = if whole > 0.0 { whole } else { 1.0 };
        let is_alone = all.iter().map(Vec::len).sum::<usize>() == 1;
        let share = |weight: &f64| if is_alone { 1.0 } else { (weight / whole) as f32 };
        Ok(all[options.group.rank()].iter().map(share).collect())
    }

    /// Adds the step for another batch layout, if there is none yet: `loss` is the trainer's function for that layout,
    /// over the same parameters. It is planned within the memory that is allocated, if possible. For a layout with a
    /// step, the loss is traced and compared; [`Trainer::has_step`] does without.
    ///
    /// # Errors
    /// A budget that is too small for it, a graph that the machine's memory cannot hold, a parameter that the trainer
    /// does not have, and another loss than that of the step that the layout has.
    pub fn add_step(&mut self, shape: BatchShape, loss: impl Fn(Cx) -> Tensor) -> Result<usize> {
        let options = &self.first.options;
        if let Some(known) = self.first.functions.get(&Some(shape)) {
            if loss_graph(options, options.own_groups().start, loss)?.mark == known.mark {
                return Ok(self.peak().planned);
            }
            return Err(Error::user(format!(
                "the step for batches of the layout {shape:?} has another loss; add a step of its own with \
                 Trainer::add_named_step"
            )));
        }
        if self.first.side_by_side {
            return Err(Error::user(format!(
                "groups that run side by side have batches of one layout, and there is a step for another one than {shape:?}; \
                 pad all batches alike, or leave out operations over all groups of a step"
            )));
        }
        let rule = options.update_rule();
        let mut traced = step_graph(options, &rule, Some(self.session.view().centred()), loss)?;
        check_params(self.session.params(), &traced.params)?;
        if options.accumulate > 1 {
            let carried = &mut self.first.carried;
            for name in std::mem::take(&mut traced.assigned) {
                if !carried.contains(&name) {
                    carried.push(name);
                }
            }
        }
        let (mark, placement, last) = (traced.mark, options.placement, traced.last.take());
        let (step, delayed) = another_step(options, &rule, traced, &self.first.late)?;
        let step = self.add(&step, placement)?;
        let mut more = |graph: Option<Graph>| graph.map(|graph| self.add(&graph, placement)).transpose();
        let first = more(delayed.map(|delayed| delayed.first))?;
        let last = more(last)?;
        let plans = std::iter::once(step).chain(last).map(|own| self.session.plan(own));
        let plans: Vec<_> = plans.collect::<Result<_>>()?;
        let own = Exchanges::of(plans.iter().map(|plan| plan.as_ref()));
        self.first.exchanges.check_end(&own)?;
        let functions = StepFunctions {
            step,
            first,
            last,
            mark,
        };
        self.first.functions.insert(Some(shape), functions);
        Ok(self.peak().planned)
    }

    /// Whether there is a step for a batch layout.
    pub fn has_step(&self, shape: BatchShape) -> bool {
        self.first.functions.contains_key(&Some(shape))
    }

    /// Runs the delayed updates of the last steps, if they have not run yet: before parameters or states are used
    /// between steps.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.first.flush(&mut self.session)
    }

    /// Refuses to go on from a step that was not finite.
    pub(super) fn check_whole(&self) -> Result<()> {
        let mut all = std::iter::once(&self.first).chain(self.named.values().map(|named| &named.steps));
        all.try_for_each(|steps| steps.check_whole())
    }
}
