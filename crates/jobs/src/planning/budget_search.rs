//! The search for plans of a training phase under which its whole process keeps to a budget.
//!
//! The plans say what states, constants and arena take. The process allocates more: what it has allocated already
//! (data, tokenizer), its programs, measured by making them once, and what follows from sizes (batches that wait,
//! checkpoints). Beside what is allocated, the program itself is in memory, and what the allocator holds. This is
//! subtracted from the budget, and the plans get the rest.

use super::account::{Account, DeviceAccount, HostAccount};
use super::phase_work::{PhaseBatches, PhaseWork, middle, near_largest};
use super::process_baseline::ProcessBaseline;
use super::program_size::{OtherPrograms, ProgramSize};
use lessen_base::allocated;
use lessen_base::{Error, Result};
use lessen_compile::{CostSource, Plan};
use lessen_device::Backend;
use lessen_task::evaluation::trace;
use lessen_task::wording::{report, tell};
use lessen_train::{StepGraphs, StepPlans, TrainerOptions, show_size};

/// Bytes that writing a checkpoint takes for a moment: the buffer of a file, and a block of a tensor's text.
const CHECKPOINT: usize = lessen_base::atomic::BUFFER + (16 << 10);

/// Bytes of a tensor's name and of its places in a session and in a checkpoint.
const TENSOR: usize = 640;

/// Bytes for messages, lines of metrics and buffers of files.
const MARGIN: usize = 192 << 10;

/// Programs of different layouts differ in size by at most one part in 64, the value here.
const DIFFERENCE: usize = 64;

/// Most plans that are made for a budget, each with less for the arena, since programs of tighter plans are larger.
const ATTEMPTS: usize = 4;

/// The plans of a training phase with the account of its process.
pub(crate) struct PhasePlans {
    /// The plans of the largest layouts.
    pub plans: StepPlans,
    /// The account of the process that runs them.
    pub account: Account,
    /// Most bytes for the plans of all layouts of batches; none without a budget.
    pub budget: Option<usize>,
}

/// The plans of a training phase, for any budget of its process.
pub(crate) struct BudgetSearch<'a> {
    backend: &'a mut dyn Backend,
    baseline: ProcessBaseline,
    /// Bytes of the plans of later training phases.
    later_plans: usize,
    work: PhaseWork<'a>,
    graphs: StepGraphs,
}

impl<'a> BudgetSearch<'a> {
    /// The search for a training phase, in a process that has allocated `baseline` and plans of later training phases
    /// of `later_plans` bytes. With measured costs, it first measures the operations without a known time.
    ///
    /// # Errors
    /// Graphs that cannot be traced.
    pub fn new(
        backend: &'a mut dyn Backend,
        (baseline, later_plans): (ProcessBaseline, usize),
        work: PhaseWork<'a>,
    ) -> Result<BudgetSearch<'a>> {
        let graphs = work.task.graphs(work.options, work.shapes)?;
        if work.options.cost == CostSource::Measured {
            let measuring = graphs.measure(backend, work.options)?;
            if measuring.is_disturbed {
                tell(
                    "note: other processes kept the machine busy while operations were measured; this run goes by their \
                     times, and the next one measures again",
                );
            }
            if measuring.measured > 0 {
                report(&format!("profiling kernels: {:.1} s", measuring.time.as_secs_f64()));
            }
        }
        Ok(BudgetSearch {
            backend,
            baseline,
            later_plans,
            work,
            graphs,
        })
    }

    /// The plans under the recipe's budget, if it has one, or the account of the tightest plans where none keep to it.
    ///
    /// # Errors
    /// Steps that cannot be compiled, and a run that the machine's memory cannot hold.
    pub(crate) fn under_recipe_budget(&mut self) -> Result<std::result::Result<PhasePlans, Account>> {
        let found = match self.work.options.budget {
            None => Ok(self.without_budget()?),
            Some(budget) => self.within(budget)?,
        };
        if let Ok(found) = &found {
            self.check_machine(found)?;
        }
        Ok(found)
    }

    /// The plans without a budget.
    ///
    /// # Errors
    /// Steps that cannot be compiled.
    pub(crate) fn without_budget(&mut self) -> Result<PhasePlans> {
        self.plans_under(None)
    }

    /// The account of the tightest plans.
    ///
    /// # Errors
    /// Steps that cannot be compiled.
    pub fn floor(&mut self) -> Result<Account> {
        let floor = self.floor_of_plans()?;
        Ok(self.plans_under(Some(floor))?.account)
    }

    /// The least bytes that plans take.
    fn floor_of_plans(&self) -> Result<usize> {
        self.graphs.floor_bytes(self.backend, &self.options(None))
    }

    /// The plans with which the whole process keeps to a budget, or the account of the tightest plans where none do.
    ///
    /// # Errors
    /// Steps that cannot be compiled.
    pub fn within(&mut self, budget: usize) -> Result<std::result::Result<PhasePlans, Account>> {
        let free = self.without_budget()?.account;
        let beside_plans = free.beside_plans();
        if free.total() <= budget {
            // A plan without a budget takes little memory rather than the least time.
            return self.fitted(budget, beside_plans, free.plans()).map(Ok);
        }
        let floor = self.floor_of_plans()?;
        let tightest = self.plans_under(Some(floor))?.account;
        if tightest.total() > budget {
            return Ok(Err(tightest));
        }
        self.fitted(budget, beside_plans, floor).map(Ok)
    }

    /// The plans with which the whole process keeps to a budget that is known to be large enough for plans of `floor`
    /// bytes. Beside plans without a budget, the process takes `beside_plans` bytes.
    ///
    /// # Errors
    /// Steps that cannot be compiled.
    fn fitted(&mut self, budget: usize, beside_plans: usize, floor: usize) -> Result<PhasePlans> {
        let mut for_plans = budget.saturating_sub(beside_plans);
        for _ in 0..ATTEMPTS {
            if for_plans <= floor {
                break;
            }
            let found = self.plans_under(Some(for_plans))?;
            match found.account.total().saturating_sub(budget) {
                0 => return Ok(found),
                excess => for_plans = for_plans.saturating_sub(excess),
            }
        }
        self.plans_under(Some(floor))
    }

    /// Calls `seen` with the plans for each of `budgets`, which fall from what the process takes without a budget to
    /// its floor. Plans that fit the next budget, too, are not made again.
    ///
    /// # Errors
    /// Steps that cannot be compiled.
    pub(crate) fn for_falling_budgets(
        &mut self,
        budgets: &[usize],
        mut seen: impl FnMut(usize, &PhasePlans),
    ) -> Result<()> {
        let floor = self.floor_of_plans()?;
        let mut found = self.without_budget()?;
        let beside_plans = found.account.beside_plans();
        for &budget in budgets {
            if found.account.total() > budget {
                found = self.fitted(budget, beside_plans, floor)?;
            }
            seen(budget, &found);
        }
        Ok(())
    }

    fn options(&self, budget: Option<usize>) -> TrainerOptions {
        TrainerOptions {
            budget,
            ..self.work.options.clone()
        }
    }

    /// The plans that take at most `budget` bytes themselves, and the account of a process that runs them.
    fn plans_under(&mut self, budget: Option<usize>) -> Result<PhasePlans> {
        let mut plans = StepPlans::new(self.backend, &self.options(budget), &self.graphs)?;
        let own_arena = plans.arena_bytes();
        let is_counted = allocated::current().is_some();
        let others = if is_counted {
            self.other_programs(&mut plans)?
        } else {
            OtherPrograms::default()
        };
        let mut account = Account {
            device: DeviceAccount {
                states: plans.state_bytes(),
                constants: plans.lasting_bytes() - plans.state_bytes(),
                arena: plans.arena_bytes(),
                workspace: 0,
            },
            host: HostAccount {
                data: self.work.batches.is_some().then_some(self.baseline.data),
                ..HostAccount::default()
            },
        };
        if !is_counted {
            return Ok(PhasePlans { plans, account, budget });
        }
        let mut programs = 0;
        for plan in plans.plans() {
            let size = ProgramSize::measure(self.backend, |_| Ok(vec![plan.clone()]))?;
            programs += size.growth.lasting;
        }
        // A parameter has two moments, and a gradient where updates wait for the next step.
        let arrays_of_parameter = if plans.delayed.is_some() { 4 } else { 3 };
        let tensors = TENSOR * plans.params.len() * arrays_of_parameter;
        let momentary = others.compiling.max(CHECKPOINT + tensors).max(self.work.report());
        let unread = if account.host.data.is_some() {
            0
        } else {
            self.baseline.data
        };
        account.device.workspace = self.baseline.workspace;
        let host = &mut account.host;
        host.process = self.baseline.process + unread;
        host.programs =
            (programs + others.programs + tensors + self.later_plans).saturating_sub(account.device.constants);
        host.batches = (self.work.ahead() + 2) * self.work.largest_batch();
        let warming = self.baseline.workspace_transient.saturating_sub(account.device.arena);
        host.transient =
            momentary.max(warming) + self.work.answers() + plans.carried_bytes() + plans.exchange_bytes() + MARGIN;
        // The process may have taken more already.
        let past = allocated::peak().unwrap_or(0).saturating_sub(self.baseline.others);
        account.host.transient += past.saturating_sub(account.allocated());
        let account = account.with_unallocated(self.baseline.code, self.baseline.small, self.baseline.held);
        Ok(PhasePlans {
            plans,
            budget: budget.map(|budget| budget + others.constants + account.device.arena - own_arena),
            account,
        })
    }

    /// The programs for layouts beside the largest, as they will be made beside these plans. Makes the arena of the
    /// plans large enough for them.
    fn other_programs(&mut self, plans: &mut StepPlans) -> Result<OtherPrograms> {
        let (steps, evaluations) = self.work.other_layouts();
        let (task, model, goal) = (self.work.task, self.work.task.model(), self.work.task.goal());
        // The arena bounds them as the budget does.
        let free = self.options(None);
        let mut step = ProgramSize::default();
        for shape in near_largest(&steps).into_iter().chain(middle(&steps)) {
            let own = ProgramSize::measure(self.backend, |backend| {
                plans.another_step(backend, &free, |cx| task.loss(cx, shape))
            })?;
            plans.make_room(own.arena);
            step = step.max(own);
        }
        let evaluation = middle(&evaluations).map(|shape| {
            ProgramSize::measure(self.backend, |backend| {
                let plan: Plan = plans.another_function(backend, |cx| trace(cx, model, goal, shape))?;
                Ok(vec![plan])
            })
        });
        let evaluation = evaluation.transpose()?.unwrap_or_default();
        let of_evaluations = evaluation.growth.lasting * evaluations.len();
        let programs = step.growth.lasting * steps.len() + of_evaluations;
        // Steps that are compiled before the first evaluation are compiled without its programs.
        let is_first = self
            .work
            .batches
            .as_ref()
            .is_some_and(PhaseBatches::are_all_seen_before_evaluation);
        let made_later = if is_first { of_evaluations } else { 0 };
        let compiling = step.growth.transient.saturating_sub(made_later);
        Ok(OtherPrograms {
            programs: programs + programs / DIFFERENCE,
            constants: step.constants * steps.len() + evaluation.constants * evaluations.len(),
            compiling: compiling.max(evaluation.growth.transient),
        })
    }

    /// Refuses a run that the machine's memory cannot hold, and warns of a budget that it cannot hold.
    fn check_machine(&mut self, found: &PhasePlans) -> Result<()> {
        let Some(available) = self.backend.memory().available else {
            return Ok(());
        };
        // The program is in memory already.
        let taken = allocated::current()
            .unwrap_or(0)
            .saturating_add(found.account.host.code);
        let most = available.saturating_add(taken);
        let needed = found.account.total();
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
        let smallest = self.floor()?.smallest_budget();
        let (needed, shown) = (show_size(needed), show_size(most));
        let remedy = if smallest <= most {
            let smallest = show_size(smallest);
            format!("set a budget of at least {smallest}, or take a smaller batch or model")
        } else {
            "take a smaller batch or model".to_string()
        };
        Err(Error::user(format!(
            "the run needs {needed} of memory but only {shown} are available to this process; {remedy}"
        )))
    }
}

/// The error of a budget below the floor, whose account is `floor`; `remedy` says what to do but to allow more.
pub(crate) fn too_small(budget: usize, floor: &Account, remedy: &str) -> Error {
    let smallest = floor.smallest_budget();
    Error::user(format!(
        "the budget of {} is below the floor of {} ({smallest} bytes): {}; allow at least that, or {remedy}",
        show_size(budget),
        show_size(smallest),
        floor.show()
    ))
}
