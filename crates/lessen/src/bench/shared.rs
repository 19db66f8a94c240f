//! The benchmark of shared steps: processes, for which threads stand, share a training over a network that a wire
//! imitates, with separate and with fused reductions (the question of chapter 3.3.5 of the dissertation). Beside each
//! measured step stands its forecast from measured costs, and forecasts of more processes than a machine runs.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_comm::{Delayed, Exchange, Group, Network, ThreadWire, Wire};
use lessen_compile::Placement;
use lessen_cpu::CpuBackend;
use lessen_device::Host;
use lessen_graph::{InputKind, Type};
use lessen_jobs::training::median;
use lessen_nn::names::is_reserved;
use lessen_train::{Part, StepGraphs, StepPlans, Trainer, TrainerOptions};
use serde_json::{Value, json};

use super::step::{Planning, chosen, fill};
use super::step_cases::Case;

/// The longest wait for another process.
const DEADLINE: Duration = Duration::from_secs(300);

/// Steps before those that are timed.
const WARMUP: usize = 2;

/// Which steps are measured.
#[derive(Clone, Debug)]
pub struct SharedSteps {
    /// Letters of cases.
    pub cases: Vec<String>,
    /// Examples of each process in a step.
    pub batches: Vec<usize>,
    /// Numbers of processes, each with one thread.
    pub processes: Vec<usize>,
    /// Numbers of processes of which steps are forecast only.
    pub forecasts: Vec<usize>,
    /// Placements of updates.
    pub placements: Vec<Placement>,
    /// The network between the processes; none for messages that take no time.
    pub network: Option<Network>,
    /// Whether each process has a piece of each large parameter alone.
    pub shards_parameters: bool,
    /// Whether steps are planned within the least memory.
    pub is_least: bool,
    /// Timed steps of each.
    pub steps: usize,
    /// The greatest norm of the gradient; none does not clip.
    pub clip_norm: Option<f64>,
    /// How each case is planned.
    pub planning: Planning,
}

/// Steps of one case.
#[derive(Clone, Debug)]
pub struct Row {
    /// Letter of the case.
    pub case: &'static str,
    /// Examples of each process.
    pub batch: usize,
    /// How many processes.
    pub processes: usize,
    /// When updates run.
    pub placement: Placement,
    /// The median step in milliseconds; none where it is forecast only.
    pub step_ms: Option<f64>,
    /// The forecast of a step in milliseconds.
    pub forecast_ms: f64,
    /// Bytes of states, constants and the largest arena of a process.
    pub peak: usize,
    /// Bytes that a process sends in a step; none where it is forecast only.
    pub sent: Option<u64>,
}

impl Row {
    fn to_json(&self) -> Value {
        json!({
            "case": self.case,
            "batch": self.batch,
            "processes": self.processes,
            "placement": self.placement.word(),
            "step_ms": self.step_ms,
            "forecast_ms": self.forecast_ms,
            "peak_bytes": self.peak,
            "sent_bytes": self.sent,
        })
    }
}

/// A device that has measured the costs of a case's operations while others measured them beside it, since processes of
/// one machine share its caches and units; and the graphs.
fn measured_costs(
    case: &Case,
    devices: usize,
    options: &(impl Fn() -> TrainerOptions + Sync),
) -> Result<(CpuBackend, StepGraphs)> {
    let measured = || -> Result<(CpuBackend, StepGraphs)> {
        let folder = tempfile::tempdir();
        let folder = folder.map_err(|error| Error::user(format!("no folder for measured times is made: {error}")))?;
        let options = options();
        let mut device = CpuBackend::new(1)?.with_times_in(folder.path().to_path_buf());
        let graphs = StepGraphs::new(&options, |cx| case.loss(cx))?;
        graphs.measure(&mut device, &options)?;
        Ok((device, graphs))
    };
    thread::scope(|scope| {
        let beside: Vec<_> = (1..devices).map(|_| scope.spawn(|| measured().map(drop))).collect();
        let own = measured();
        for other in beside {
            match other.join() {
                Ok(other) => other?,
                Err(_) => return Err(Error::internal("a measurement of the benchmark has ended")),
            }
        }
        own
    })
}

/// Measures and forecasts all that is asked for, and returns what `--json` prints.
///
/// # Errors
/// A sentence when a letter is unknown, or a step fails; the error of `report`.
pub fn run(steps: &SharedSteps, mut report: impl FnMut(&Row) -> Result<()>) -> Result<Value> {
    let mut rows = Vec::new();
    for case in chosen(&steps.cases)? {
        for &batch in &steps.batches {
            let case = case.with_batch(batch);
            let measured = steps.processes.iter().map(|&processes| (processes, true));
            let all = measured.chain(steps.forecasts.iter().map(|&processes| (processes, false)));
            for (processes, runs) in all {
                for &placement in &steps.placements {
                    let row = steps.row(&case, batch, (processes, runs), placement)?;
                    report(&row)?;
                    rows.push(row.to_json());
                }
            }
        }
    }
    Ok(Value::Array(rows))
}

impl SharedSteps {
    fn row(&self, case: &Case, batch: usize, (processes, runs): (usize, bool), placement: Placement) -> Result<Row> {
        let options = |group: Group| TrainerOptions {
            placement,
            clip_norm: self.clip_norm,
            accumulate: processes,
            ranks: processes,
            shards_parameters: self.shards_parameters,
            group,
            ..self.planning.options(case)
        };
        let planned = || options(Group::planned(0, processes, self.network));
        // Processes that run share this machine's cores; of more, each has a core as here.
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let at_once = if runs { processes } else { cores.min(processes) };
        let (device, graphs) = measured_costs(case, at_once, &planned)?;
        let planned = self.within(&graphs, &device, planned())?;
        let plans = StepPlans::new(&device, &planned, &graphs)?;
        let row = Row {
            case: case.letter,
            batch,
            processes,
            placement,
            step_ms: None,
            forecast_ms: 1e3 * plans.estimated_seconds(1),
            peak: plans.peak_bytes(),
            sent: None,
        };
        if !runs {
            return Ok(row);
        }
        let (step_ms, sent) = self.measured(case, processes, options)?;
        Ok(Row {
            step_ms: Some(step_ms),
            sent: Some(sent),
            ..row
        })
    }

    /// The options with the least budget, where that is asked for.
    fn within(&self, graphs: &StepGraphs, device: &CpuBackend, options: TrainerOptions) -> Result<TrainerOptions> {
        let budget = self
            .is_least
            .then(|| graphs.floor_bytes(device, &options))
            .transpose()?;
        Ok(TrainerOptions {
            budget: budget.or(options.budget),
            ..options
        })
    }

    /// The median time of a step in milliseconds, and the bytes that the first process sends in one.
    fn measured(
        &self,
        case: &Case,
        processes: usize,
        options: impl Fn(Group) -> TrainerOptions + Sync,
    ) -> Result<(f64, u64)> {
        let wires = ThreadWire::connected(processes);
        thread::scope(|scope| {
            let ranks = wires.into_iter().map(|wire| {
                let options = &options;
                scope.spawn(move || self.steps_of(case, wire, options))
            });
            let ranks: Vec<_> = ranks.collect();
            let all = ranks.into_iter().map(|rank| match rank.join() {
                Ok(told) => told,
                Err(_) => Err(Error::internal("a process of the benchmark has ended")),
            });
            let all: Vec<(f64, u64)> = all.collect::<Result<_>>()?;
            all.first()
                .copied()
                .ok_or_else(|| Error::internal("a benchmark of no processes"))
        })
    }

    /// The steps of one process.
    fn steps_of(
        &self,
        case: &Case,
        wire: ThreadWire,
        options: &(impl Fn(Group) -> TrainerOptions + Sync),
    ) -> Result<(f64, u64)> {
        let network = self.network;
        let open = move || -> Result<Box<dyn Wire>> {
            Ok(match network {
                Some(network) => Box::new(Delayed::new(wire, network)),
                None => Box::new(wire),
            })
        };
        let exchange = Arc::new(Exchange::start(DEADLINE, open)?);
        let group = Group::of(exchange).measured()?;
        let options = options(group.clone());
        let share = 1.0 / options.ranks as f32;
        let graphs = StepGraphs::new(&options, |cx| case.loss(cx))?;
        let options = self.within(&graphs, &CpuBackend::new(1)?, options)?;
        let graph = graphs.step;
        let data = graph.inputs.iter().filter(|input| input.kind == InputKind::Data);
        let inputs: Vec<(String, Type)> = data
            .filter(|input| !is_reserved(&input.name))
            .map(|input| (input.name.clone(), graph.ty(input.value).clone()))
            .collect();
        let batch: Vec<_> = inputs.iter().map(|(name, ty)| fill(case.sizes(), name, ty)).collect();
        let arrays: Vec<(&str, Host<'_>)> = inputs
            .iter()
            .zip(&batch)
            .map(|((name, _), data)| (name.as_str(), data.host()))
            .collect();
        let mut trainer = Trainer::new(Box::new(CpuBackend::new(1)?), options, |cx| case.loss(cx))?;
        let mut times = Vec::with_capacity(self.steps);
        let mut sent = 0;
        for number in 0..WARMUP + self.steps {
            if number == WARMUP {
                sent = group.bytes_sent();
            }
            let begun = Instant::now();
            trainer.step_on(&[Part::new(share, &arrays)])?;
            if number >= WARMUP {
                times.push(1e3 * begun.elapsed().as_secs_f64());
            }
        }
        Ok((median(times), (group.bytes_sent() - sent) / self.steps as u64))
    }
}
