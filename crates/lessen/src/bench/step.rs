//! The benchmark of training steps: compile time, step time, share and speed of matrix products, planned and measured
//! memory of training steps. `bench/step.py` runs the same in PyTorch beside it.

use std::collections::BTreeSet;
use std::time::Instant;

use lessen_base::word::Word;
use lessen_base::{Result, SplitMix64};
use lessen_compile::{CostSource, Policy, Precision};
use lessen_cpu::{CpuBackend, Device, Executable, Store, peak_flops};
use lessen_device::Host;
use lessen_graph::{DType, Phase, Type};
use lessen_jobs::training::median;
use lessen_nn::names::{KEY, LOSS, lr_input, steps_input};
use lessen_nn::{NormKind, initialize};
use lessen_train::memory::ResidentGrowth;
use lessen_train::{StepGraphs, StepPlans, TrainerOptions};
use serde_json::{Map, Value, json};

pub use super::step_cases::{Case, cases};

/// The measurement of a case.
#[derive(Clone, Debug)]
pub struct Measured {
    /// From the model function to kernels: tracing, derivative, passes, plan, binding.
    pub compile_ms: f64,
    /// Time of a training step by the costs that the plan was made with, in milliseconds.
    pub estimated_ms: f64,
    /// The steps of the plan.
    pub schedule: Vec<Scheduled>,
    /// Times of the training steps, ascending.
    pub step_ms: Vec<f64>,
    /// Times of what is forward, backward and update in a step, in milliseconds. What a fused step of the plan computes
    /// counts for the first of them that is in it.
    pub phase_ms: [f64; 3],
    /// Numbers in the parameters.
    pub parameters: usize,
    /// Layers that have parameters.
    pub layers: usize,
    /// The part of all threads' time that goes to matrix products.
    pub matmul_share: f64,
    /// Floating-point operations of matrix products in a step.
    pub matmul_flops: f64,
    /// Bytes of parameters, optimizer state, arena and constants, as planned.
    pub planned_peak: usize,
    /// Bytes of parameters, optimizer state, arena and constants, as measured.
    pub measured_peak: usize,
    /// How far the process's resident memory grew, with everything that is in it; none where the system does not tell.
    pub resident_growth: Option<usize>,
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// Bytes of parameters and optimizer state.
    pub state_bytes: usize,
    /// The last loss.
    pub loss: f32,
}

/// A step of a plan.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// The names of the step's operations.
    pub operations: String,
    /// The first phase that they are of.
    pub phase: Phase,
    /// Time by the costs that the plan was made with, in milliseconds.
    pub estimated_ms: f64,
    /// Measured time, in milliseconds.
    pub measured_ms: f64,
}

impl Scheduled {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "operations": self.operations,
            "estimated_ms": self.estimated_ms,
            "measured_ms": self.measured_ms,
        })
    }

    /// The steps of a plan, with their mean times over `runs` profiled runs.
    pub(super) fn of(step: &Executable, runs: usize) -> Vec<Scheduled> {
        let plan = step.plan();
        let seconds = plan.estimated_step_seconds().iter().zip(step.step_seconds());
        (plan.steps().iter().zip(seconds))
            .map(|(planned, (estimated, measured))| {
                let nodes = planned.nodes.iter().map(|id| &plan.graph().nodes[id.index()]);
                let names: Vec<&str> = nodes.clone().map(|node| node.op.name()).collect();
                Scheduled {
                    phase: nodes
                        .map(|node| node.phase)
                        .min_by_key(|phase| *phase as u8)
                        .unwrap_or_default(),
                    operations: names.join(" "),
                    estimated_ms: 1e3 * estimated,
                    measured_ms: 1e3 * measured / runs as f64,
                }
            })
            .collect()
    }
}

impl Measured {
    /// The median step in milliseconds.
    pub fn median_ms(&self) -> f64 {
        median(self.step_ms.clone())
    }

    /// Floating-point operations of matrix products per second of step time.
    pub fn flops(&self) -> f64 {
        self.matmul_flops / (self.median_ms() * 1e-3)
    }
}

/// How a case is planned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planning {
    /// Most memory of a step.
    pub budget: Option<usize>,
    /// Dtype of the operands of matrix products.
    pub precision: Precision,
    /// Who decides about memory.
    pub policy: Policy,
    /// Greatest error of values that the memory planner may invert or round.
    pub allowed_error: f64,
    /// The planner's cost model.
    pub cost: CostSource,
    /// Examples in a batch, instead of the case's own.
    pub batch: Option<usize>,
    /// How layer norms are computed.
    pub norm: NormKind,
}

impl Planning {
    /// The options of training a case.
    pub(super) fn options(&self, case: &Case) -> TrainerOptions {
        TrainerOptions {
            budget: self.budget,
            precision: self.precision,
            policy: self.policy,
            allowed_error: self.allowed_error,
            cost: self.cost,
            frozen: case.frozen(),
            norm: self.norm,
            ..TrainerOptions::new(5e-4)
        }
    }
}

impl Planning {
    /// A case with the batch that it is to have.
    pub(super) fn sized(&self, case: &Case) -> Case {
        self.batch.map_or(case.clone(), |batch| case.with_batch(batch))
    }

    /// A device to compile for, with what was measured of it if plans are to be by that.
    pub(super) fn compiler(&self, case: &Case) -> Result<CpuBackend> {
        let mut compiler = CpuBackend::from_env()?;
        if self.cost == CostSource::Measured {
            let options = self.options(case);
            StepGraphs::new(&options, |cx| case.loss(cx))?.measure(&mut compiler, &options)?;
        }
        Ok(compiler)
    }
}

/// Runs a case: two steps to warm up, `steps` timed ones, then two that are profiled.
///
/// # Errors
/// A sentence when the plan or a step fails.
pub fn measure(case: &Case, steps: usize, planning: Planning) -> Result<Measured> {
    measure_options(case, steps, &planning.options(case), planning.compiler(case)?)
}

/// Runs a case as [`measure`] does, with these options and plans of this device.
pub(super) fn measure_options(
    case: &Case,
    steps: usize,
    options: &TrainerOptions,
    compiler: CpuBackend,
) -> Result<Measured> {
    // A device of its own, whose arena is no larger than this step's.
    let mut device = Device::from_env()?;
    let growth = ResidentGrowth::watch();
    let start = Instant::now();
    let graphs = StepGraphs::new(options, |cx| case.loss(cx))?;
    let plans = StepPlans::new(&compiler, options, &graphs)?;
    let (params, states) = (plans.params, plans.states);
    // The first step of updates that are delayed has none to begin with.
    let mut first = plans.delayed.map(|delayed| Executable::load(delayed.first));
    let mut step = Executable::load(plans.step);
    let compile_ms = start.elapsed().as_secs_f64() * 1e3;
    drop(compiler);

    let mut store = Store::new();
    for (name, weight) in initialize(&params, 1) {
        store.insert_f32(&name, &weight.shape, &weight.data);
    }
    for (name, ty) in &states {
        store.insert_zeros(name, ty)?;
    }
    let inputs: Vec<(String, Type)> = step.data_inputs().map(|(n, ty)| (n.to_string(), ty.clone())).collect();
    let mut batch: Vec<(String, Filled)> = inputs
        .iter()
        .map(|(name, ty)| (name.clone(), fill(case.sizes(), name, ty)))
        .collect();

    let mut times = Vec::with_capacity(steps);
    let (warm_up, profiled) = (2, 2);
    let mut profiled_seconds = 0.0;
    for i in 0..warm_up + steps + profiled {
        for (name, value) in &mut batch {
            match (name.as_str(), value) {
                (name, Filled::F32(t)) if name == steps_input(0) => t[0] = (i + 1) as f32,
                (KEY, Filled::U32(key)) => *key = vec![1, i as u32],
                _ => {}
            }
        }
        let data: Vec<(&str, Host<'_>)> = batch.iter().map(|(n, v)| (n.as_str(), v.host())).collect();
        if i == warm_up + steps {
            step.set_profiling(true);
        }
        let start = Instant::now();
        match first.take() {
            Some(mut first) => first.run(&mut device, &mut store, &data)?,
            None => step.run(&mut device, &mut store, &data)?,
        }
        let seconds = start.elapsed().as_secs_f64();
        if i >= warm_up + steps {
            profiled_seconds += seconds;
        } else if i >= warm_up {
            times.push(seconds * 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    let plan = step.plan();
    let schedule = Scheduled::of(&step, profiled);
    let layers: BTreeSet<&str> = params.iter().map(|param| layer(&param.name)).collect();
    Ok(Measured {
        phase_ms: [Phase::Forward, Phase::Backward, Phase::Update].map(|phase| {
            let own = schedule.iter().filter(|step| step.phase == phase);
            own.map(|step| step.measured_ms).sum()
        }),
        parameters: params.iter().map(|param| param.shape.iter().product::<usize>()).sum(),
        layers: layers.len(),
        compile_ms,
        estimated_ms: 1e3 * plan.estimated_seconds(),
        schedule,
        step_ms: times,
        matmul_share: step.profile().products / (profiled_seconds * device.threads() as f64),
        matmul_flops: plan.flops().0,
        planned_peak: plan.peak_bytes(),
        measured_peak: store.bytes() + step.constant_bytes() + step.result_bytes() + device.arena_bytes(),
        resident_growth: growth.and_then(|growth| growth.peak()),
        arena_bytes: plan.arena_bytes(),
        state_bytes: plan.state_bytes(),
        loss: step.output_f32(LOSS).expect("the step returns its loss")[0],
    })
}

/// The layer that a parameter is of.
fn layer(parameter: &str) -> &str {
    parameter.rsplit_once('.').map_or(parameter, |(layer, _)| layer)
}

/// Data of one input.
pub(super) enum Filled {
    F32(Vec<f32>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    Bool(Vec<u8>),
}

impl Filled {
    pub(super) fn host(&self) -> Host<'_> {
        match self {
            Filled::F32(x) => Host::F32(x),
            Filled::I32(x) => Host::I32(x),
            Filled::U32(x) => Host::U32(x),
            Filled::Bool(x) => Host::Bool(x),
        }
    }
}

/// Pseudo-random tokens and labels, real tokens everywhere, a learning rate.
pub(super) fn fill((tokens, classes): (usize, usize), name: &str, ty: &Type) -> Filled {
    let n = ty.numel();
    let numbers = |below: usize| {
        let mut random = SplitMix64::new(42);
        (0..n).map(|_| random.below(below as u64) as i32).collect()
    };
    match (name, ty.dtype) {
        ("tokens", _) => Filled::I32(numbers(tokens)),
        ("labels", _) if ty.rank() == 1 => Filled::I32(numbers(classes)),
        ("labels", _) => Filled::I32(numbers(tokens)),
        (name, _) if name == lr_input(0) => Filled::F32(vec![1e-4]),
        ("images", _) => {
            let mut random = SplitMix64::new(42);
            let pixel = |_| random.below(256) as f32 / 64.0 - 2.0;
            Filled::F32((0..n).map(pixel).collect())
        }
        (_, DType::F32) => Filled::F32(vec![1.0; n]),
        (_, DType::U32) => Filled::U32(vec![1; n]),
        (_, DType::Bool) => Filled::Bool(vec![1; n]),
        _ => Filled::I32(vec![0; n]),
    }
}

/// The cases with these letters.
///
/// # Errors
/// A sentence when a letter is unknown.
pub(super) fn chosen(letters: &[String]) -> Result<Vec<Case>> {
    let mut cases = cases();
    if let Some(unknown) = letters.iter().find(|l| cases.iter().all(|c| c.letter != l.as_str())) {
        return Err(lessen_base::Error::user(format!(
            "there is no case `{unknown}`; the cases are {}",
            cases.iter().map(|case| case.letter).collect::<Vec<_>>().join(", ")
        )));
    }
    cases.retain(|case| letters.iter().any(|l| l == case.letter));
    Ok(cases)
}

/// Runs the cases with these letters and returns what `--json` prints.
///
/// # Errors
/// A sentence when a letter is unknown or a case fails.
pub fn run(
    letters: &[String],
    steps: usize,
    planning: Planning,
    mut report: impl FnMut(&Case, &Measured, f64),
) -> Result<Value> {
    let chosen = chosen(letters)?;
    let device = Device::from_env()?;
    let (peak, threads) = (peak_flops(&device), device.threads());
    drop(device);
    let mut results = Map::new();
    for case in &chosen {
        let case = &planning.sized(case);
        let planning = Planning {
            budget: planning.budget.or(case.budget),
            ..planning
        };
        let m = measure(case, steps, planning)?;
        report(case, &m, peak);
        results.insert(
            case.letter.to_string(),
            json!({
                "title": case.title,
                "compile_ms": m.compile_ms,
                "cost": planning.cost.word(),
                "estimated_ms": m.estimated_ms,
                "step_ms": m.median_ms(),
                "step_ms_min": m.step_ms[0],
                "step_ms_max": m.step_ms[m.step_ms.len() - 1],
                "matmul_share": m.matmul_share,
                "gflops": m.flops() / 1e9,
                "state_bytes": m.state_bytes,
                "arena_bytes": m.arena_bytes,
                "planned_peak_bytes": m.planned_peak,
                "measured_peak_bytes": m.measured_peak,
                "resident_growth_bytes": m.resident_growth,
                "loss": m.loss,
                "schedule": m.schedule.iter().map(Scheduled::to_json).collect::<Vec<_>>(),
            }),
        );
    }
    Ok(json!({ "peak_gflops": peak / 1e9, "threads": threads, "cases": results }))
}
