//! Planning a stage of a run so that its whole process keeps to a budget.
//!
//! The plans say what states, constants and arena take. What else the process allocates is there already (data,
//! tokenizer), is counted by making it once and freeing it again (programs), or follows from sizes (batches that wait,
//! checkpoints). It is subtracted from the budget, and the plans get what is left.

use super::account::Parts;
use super::work::{Batches, Work, middle, near_largest};
use crate::task::evaluation::trace;
use crate::wording::{report, tell};
use lessen_base::allocated::{self, Growth};
use lessen_base::{Error, Result};
use lessen_compile::{Backend, CostModel, Plan};
use lessen_train::memory::available_bytes;
use lessen_train::{StepGraphs, StepPlans, TrainerOptions, show_size};

/// Bytes that writing a checkpoint takes for a moment: the buffer of a file, and a block of a tensor's text.
const CHECKPOINT: usize = lessen_base::atomic::BUFFER + (16 << 10);

/// Bytes of the names and places of a tensor in a session and in a checkpoint.
const TENSOR: usize = 640;

/// Bytes for what is not foreseen: messages, lines of metrics, buffers of files.
const MARGIN: usize = 192 << 10;

/// By which share of it the program of a layout differs from that of another at most.
const DIFFERENCE: usize = 64;

/// Bytes of constants and results from which on a program is not loaded to find out what it takes.
const LARGE: usize = 64 << 20;

/// How often plans are made anew since programs of tighter plans are larger.
const ATTEMPTS: usize = 4;

/// What a process has allocated before it plans its steps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Base {
    process: usize,
    data: usize,
    workspace: usize,
    /// What making the workspace takes for a moment.
    warming: usize,
}

impl Base {
    /// That of a process which had allocated so much at its start, none where nobody counts, and has read its data.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub(crate) fn of(start: Option<usize>, backend: &mut dyn Backend) -> Result<Base> {
        let now = allocated::current();
        let (made, growth) = allocated::growth(|| backend.reserve(0));
        made?;
        Ok(start.zip(now).map_or(Base::default(), |(process, now)| Base {
            process,
            data: now.saturating_sub(process),
            workspace: growth.lasting,
            warming: growth.transient,
        }))
    }
}

/// The plans of a stage with the account of its process.
pub(crate) struct Planned {
    pub plans: StepPlans,
    pub parts: Parts,
    /// What all plans of the stage may take, those of other layouts of batches included.
    pub budget: Option<usize>,
}

/// What a program takes.
#[derive(Clone, Copy, Default)]
struct Weight {
    /// Bytes of its constants.
    constants: usize,
    /// Bytes of the arena that it runs in.
    arena: usize,
    /// What making and loading it allocates.
    growth: Growth,
}

impl Weight {
    fn max(self, other: Weight) -> Weight {
        Weight {
            constants: self.constants.max(other.constants),
            arena: self.arena.max(other.arena),
            growth: Growth {
                lasting: self.growth.lasting.max(other.growth.lasting),
                transient: self.growth.transient.max(other.growth.transient),
            },
        }
    }
}

/// The programs of layouts beside the largest.
#[derive(Default)]
struct Others {
    /// Bytes that they take together.
    programs: usize,
    /// Bytes of their constants among these.
    constants: usize,
    /// Bytes that compiling one of them takes for a moment, beside all others.
    compiling: usize,
}

/// A planner of a stage.
pub(crate) struct Planner<'a> {
    backend: &'a mut dyn Backend,
    base: Base,
    /// Bytes of the plans of later stages, which wait.
    waiting: usize,
    work: Work<'a>,
    graphs: StepGraphs,
}

impl<'a> Planner<'a> {
    /// A planner of a stage in a process that has allocated `base`, and plans of later stages of `waiting` bytes. With
    /// measured costs it first measures what is not known yet.
    ///
    /// # Errors
    /// Graphs that cannot be traced.
    pub(crate) fn new(
        backend: &'a mut dyn Backend,
        (base, waiting): (Base, usize),
        work: Work<'a>,
    ) -> Result<Planner<'a>> {
        let graphs = work.task.graphs(work.options, work.shapes)?;
        if work.options.cost == CostModel::Measured {
            let measuring = graphs.measure(backend, work.options)?;
            if measuring.measured > 0 {
                report(&format!("profiling kernels: {:.1} s", measuring.time.as_secs_f64()));
            }
        }
        Ok(Planner {
            backend,
            base,
            waiting,
            work,
            graphs,
        })
    }

    /// The plans under the recipe's budget, if it has one.
    ///
    /// # Errors
    /// A budget that is too small, with the smallest one, and a run that the machine's memory cannot hold.
    pub(crate) fn chosen(&mut self) -> Result<Planned> {
        let planned = match self.work.options.budget {
            None => self.free()?,
            Some(budget) => self.within(budget)?.map_err(|least| too_small(budget, &least))?,
        };
        self.check_machine(&planned)?;
        Ok(planned)
    }

    /// The plans without a budget.
    ///
    /// # Errors
    /// Steps that cannot be compiled.
    pub(crate) fn free(&mut self) -> Result<Planned> {
        self.planned(None)
    }

    /// The parts of the tightest plans.
    ///
    /// # Errors
    /// Steps that cannot be compiled.
    pub(crate) fn least(&mut self) -> Result<Parts> {
        let floor = self.floor()?;
        Ok(self.planned(Some(floor))?.parts)
    }

    fn floor(&self) -> Result<usize> {
        self.graphs.floor_bytes(self.backend, &self.options(None))
    }

    /// The plans with which the whole process keeps to a budget, or the parts of the tightest ones where it cannot.
    ///
    /// # Errors
    /// Steps that cannot be compiled.
    pub(crate) fn within(&mut self, budget: usize) -> Result<std::result::Result<Planned, Parts>> {
        let free = self.free()?.parts;
        let beyond = free.beyond();
        if free.total() <= budget {
            // A plan without a budget takes little memory rather than the least time.
            return self.between(budget, beyond, free.plans()).map(Ok);
        }
        let floor = self.floor()?;
        let least = self.planned(Some(floor))?.parts;
        if least.total() > budget {
            return Ok(Err(least));
        }
        self.between(budget, beyond, floor).map(Ok)
    }

    /// The plans with which the whole process keeps to a budget that is large enough. Without a budget the process
    /// takes `beyond` bytes beyond its plans, which fit if they take `floor` bytes.
    ///
    /// # Errors
    /// Steps that cannot be compiled.
    fn between(&mut self, budget: usize, beyond: usize, floor: usize) -> Result<Planned> {
        let mut inner = budget.saturating_sub(beyond);
        for _ in 0..ATTEMPTS {
            if inner <= floor {
                break;
            }
            let planned = self.planned(Some(inner))?;
            match planned.parts.total().saturating_sub(budget) {
                0 => return Ok(planned),
                excess => inner = inner.saturating_sub(excess),
            }
        }
        self.planned(Some(floor))
    }

    /// Plans for each of these budgets, which fall from what the process takes without one to the floor, and hands
    /// them on. Plans that take no more than the next budget are those of that budget, too.
    ///
    /// # Errors
    /// Steps that cannot be compiled.
    pub(crate) fn falling(&mut self, budgets: &[usize], mut seen: impl FnMut(usize, &Planned)) -> Result<()> {
        let floor = self.floor()?;
        let mut planned = self.free()?;
        let beyond = planned.parts.beyond();
        for &budget in budgets {
            if planned.parts.total() > budget {
                planned = self.between(budget, beyond, floor)?;
            }
            seen(budget, &planned);
        }
        Ok(())
    }

    fn options(&self, budget: Option<usize>) -> TrainerOptions {
        TrainerOptions {
            budget,
            ..self.work.options.clone()
        }
    }

    /// The plans within `budget`, and the account of a process that runs them.
    fn planned(&mut self, budget: Option<usize>) -> Result<Planned> {
        let mut plans = StepPlans::new(self.backend, &self.options(budget), &self.graphs)?;
        let own = plans.arena_bytes();
        let others = match allocated::current() {
            Some(_) => self.others(&mut plans)?,
            None => Others::default(),
        };
        let mut parts = Parts {
            states: plans.state_bytes(),
            constants: plans.lasting_bytes() - plans.state_bytes(),
            arena: plans.arena_bytes(),
            data: self.work.batches.is_some().then_some(self.base.data),
            ..Parts::default()
        };
        if allocated::current().is_none() {
            return Ok(Planned { plans, parts, budget });
        }
        let mut programs = 0;
        for plan in plans.plans() {
            programs += self.weighed(|_| Ok(vec![plan.clone()]))?.growth.lasting;
        }
        // A parameter has two moments, and a gradient where updates wait for the next step.
        let each = if plans.delayed.is_some() { 4 } else { 3 };
        let tensors = TENSOR * plans.params.len() * each;
        let momentary = others.compiling.max(CHECKPOINT + tensors).max(self.work.report());
        let unread = if parts.data.is_some() { 0 } else { self.base.data };
        parts.process = self.base.process + unread;
        parts.workspace = self.base.workspace;
        parts.programs = (programs + others.programs + tensors + self.waiting).saturating_sub(parts.constants);
        parts.batches = (self.work.ahead() + 2) * self.work.largest_batch();
        parts.transient = momentary.max(self.base.warming.saturating_sub(parts.arena)) + self.work.answers() + MARGIN;
        // What is over already may have taken more.
        let past = allocated::peak().unwrap_or(0);
        parts.transient += past.saturating_sub(parts.total());
        Ok(Planned {
            plans,
            parts,
            budget: budget.map(|budget| budget + others.constants + parts.arena - own),
        })
    }

    /// The programs of layouts beside the largest, as they are going to be made beside these plans, whose arena is made
    /// large enough for them.
    fn others(&mut self, plans: &mut StepPlans) -> Result<Others> {
        let (steps, evaluations) = self.work.other_layouts();
        let (task, model, goal) = (self.work.task, &self.work.task.model, &self.work.task.goal);
        // The arena bounds them as the budget does.
        let free = self.options(None);
        let mut step = Weight::default();
        for shape in near_largest(&steps).into_iter().chain(middle(&steps)) {
            let own = self.weighed(|backend| plans.another_step(backend, &free, |cx| task.loss(cx, shape)))?;
            plans.make_room(own.arena);
            step = step.max(own);
        }
        let evaluation = middle(&evaluations).map(|shape| {
            self.weighed(|backend| {
                Ok(vec![
                    plans.another_function(backend, |cx| trace(cx, model, goal, shape))?,
                ])
            })
        });
        let (step_constants, step) = (step.constants, step.growth);
        let evaluation = evaluation.transpose()?.unwrap_or_default();
        let (evaluation_constants, evaluation) = (evaluation.constants, evaluation.growth);
        let evaluated = evaluation.lasting * evaluations.len();
        let programs = step.lasting * steps.len() + evaluated;
        // Steps that are compiled before the first evaluation are compiled without its programs.
        let is_first = self
            .work
            .batches
            .as_ref()
            .is_some_and(Batches::are_all_seen_before_evaluation);
        let compiling = step.transient.saturating_sub(if is_first { evaluated } else { 0 });
        Ok(Others {
            programs: programs + programs / DIFFERENCE,
            constants: step_constants * steps.len() + evaluation_constants * evaluations.len(),
            compiling: compiling.max(evaluation.transient),
        })
    }

    /// Makes plans, loads them and frees them again, to find out what they take. Large constants and results are not
    /// allocated for that.
    fn weighed(&mut self, make: impl FnOnce(&dyn Backend) -> Result<Vec<Plan>>) -> Result<Weight> {
        let (made, made_growth) = allocated::growth(|| make(self.backend));
        let plans = made?;
        let constants: usize = plans.iter().map(Plan::constant_bytes).sum();
        let arena = plans.iter().map(Plan::arena_bytes).fold(0, usize::max);
        let results = |plan: &Plan| -> usize {
            let outputs = plan.graph().outputs.iter();
            outputs.map(|output| plan.graph().ty(output.value).bytes()).sum()
        };
        let results: usize = plans.iter().map(results).sum();
        if constants + results > LARGE {
            let lasting = made_growth.lasting + constants + results;
            let growth = Growth { lasting, ..made_growth };
            return Ok(Weight {
                constants,
                arena,
                growth,
            });
        }
        let load = |plan| self.backend.load(plan);
        let (loaded, loaded_growth) = allocated::growth(|| plans.into_iter().map(load).collect::<Result<Vec<_>>>());
        loaded?.into_iter().for_each(|program| self.backend.unload(program));
        let lasting = made_growth.lasting + loaded_growth.lasting;
        let transient = made_growth.transient.saturating_sub(loaded_growth.lasting);
        let transient = transient.max(loaded_growth.transient);
        let growth = Growth { lasting, transient };
        Ok(Weight {
            constants,
            arena,
            growth,
        })
    }

    /// Refuses a run that the machine's memory cannot hold, and says where it cannot hold the budget.
    fn check_machine(&mut self, planned: &Planned) -> Result<()> {
        let Some(available) = available_bytes() else {
            return Ok(());
        };
        let most = available.saturating_add(allocated::current().unwrap_or(0));
        let needed = planned.parts.total();
        if needed <= most {
            if let Some(budget) = self.work.options.budget.filter(|budget| *budget > most) {
                let (budget, most, needed) = (show_size(budget), show_size(most), show_size(needed));
                tell(&format!(
                    "warning: the budget of {budget} is more than the {most} of memory that this process can have; the run \
                     takes {needed}"
                ));
            }
            return Ok(());
        }
        let least = self.least()?.smallest_budget();
        let (needed, shown) = (show_size(needed), show_size(most));
        let remedy = match least <= most {
            true => format!(
                "set a budget from {} on, or take a smaller batch or model",
                show_size(least)
            ),
            false => "take a smaller batch or model".to_string(),
        };
        Err(Error::user(format!(
            "the run needs {needed} of memory but only {shown} are available to this process; {remedy}"
        )))
    }
}

/// The error of a budget that a run does not get along with.
pub(crate) fn too_small(budget: usize, least: &Parts) -> Error {
    let smallest = least.smallest_budget();
    Error::user(format!(
        "the budget of {} is below the floor of {} ({smallest} bytes): {}; allow at least that, or take a smaller batch \
         or model",
        show_size(budget),
        show_size(smallest),
        least.show()
    ))
}
