//! The benchmark of ONNX models: times of runs on random inputs, beside the times of ONNX Runtime, and the slowest
//! operations.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lessen_base::Result;
use lessen_compile::Plan;
use lessen_data::arrays::Array;
use lessen_device::Backend;
use lessen_graph::Op;
use lessen_graph::ops::LayerNorm;
use lessen_jobs::training::median;
use lessen_onnx::{HostValue, Model};
use lessen_onnx_sessions::Session;
use serde_json::{Value, json};

use super::onnxruntime::{OnnxRuntime, Rival};
use crate::devices::cpu_with;
use crate::onnx::array;

/// The nodes of one operation.
#[derive(Clone, PartialEq, Debug)]
pub struct OperationTime {
    /// The operation's name.
    pub name: &'static str,
    /// Number of nodes.
    pub nodes: usize,
    /// The part of the time in kernels, summed over all threads.
    pub share: f64,
}

/// Times of ONNX Runtime on the same inputs.
#[derive(Clone, PartialEq, Debug)]
pub struct Beside {
    /// The version of ONNX Runtime.
    pub version: String,
    /// Times of the runs in milliseconds, ascending.
    pub run_ms: Vec<f64>,
    /// The ratios of Lessen's time to the time of ONNX Runtime's run after it, ascending.
    pub ratios: Vec<f64>,
}

/// The measurement of a model.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Times of the runs in milliseconds, ascending.
    pub run_ms: Vec<f64>,
    /// ONNX Runtime beside it, or why it is not there; none where it was not asked for.
    pub beside: Option<std::result::Result<Beside, String>>,
    /// Floating-point operations of matrix products in one run.
    pub flops: f64,
    /// The machine's peak in floating-point operations per second of `f32` products, measured after the runs.
    pub peak_flops: f64,
    /// The part of the time in kernels, summed over all threads, that goes to norms.
    pub norm_share: f64,
    /// Number of norms in the plan. A norm of primitive operations that the compiler does not recognize does not count.
    pub norms: usize,
    /// The slowest operations, the slowest first.
    pub operations: Vec<OperationTime>,
    /// From the model's nodes to kernels.
    pub compile_ms: f64,
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// Bytes of the parameters.
    pub parameter_bytes: usize,
    /// Threads.
    pub threads: usize,
}

impl Measured {
    /// The median run in milliseconds.
    pub fn median_ms(&self) -> f64 {
        median(self.run_ms.clone())
    }

    /// The part of the machine's peak that products reach in a run of `run_ms` milliseconds.
    pub fn share_of_peak(&self, run_ms: f64) -> f64 {
        1e3 * self.flops / run_ms / self.peak_flops
    }

    /// The quickest and the slowest run in milliseconds.
    pub fn spread_ms(&self) -> [f64; 2] {
        [self.run_ms[0], self.run_ms[self.run_ms.len() - 1]]
    }

    /// The JSON object.
    pub fn to_json(&self) -> Value {
        let onnxruntime = self.beside.as_ref().map(|beside| match beside {
            Ok(Beside {
                version,
                run_ms,
                ratios,
            }) => {
                json!({ "version": version, "ms": of_sorted(run_ms), "ratio": of_sorted(ratios) })
            }
            Err(why) => json!({ "absent": why }),
        });
        let operations = self.operations.iter().map(|operation| {
            let OperationTime { name, nodes, share } = operation;
            json!({ "name": name, "nodes": nodes, "share": share })
        });
        json!({
            "ms": of_sorted(&self.run_ms),
            "runs": self.run_ms.len(),
            "threads": self.threads,
            "onnxruntime": onnxruntime,
            "flops": self.flops,
            "peak_gflops": self.peak_flops / 1e9,
            "norm_share": self.norm_share,
            "norm_share_of": "time in kernels, all threads together",
            "norms": self.norms,
            "operations": operations.collect::<Vec<Value>>(),
            "compile_ms": self.compile_ms,
            "arena_bytes": self.arena_bytes,
            "parameter_bytes": self.parameter_bytes,
        })
    }
}

/// Median, least and greatest of ascending numbers.
fn of_sorted(numbers: &[f64]) -> Value {
    json!({ "median": median(numbers.to_vec()), "min": numbers[0], "max": numbers[numbers.len() - 1] })
}

/// Runs a model on inputs: twice to warm up, `runs` timed runs, then two that are profiled; where one run is timed, one
/// of each. If `beside` is given and Python has ONNX Runtime, each timed run is followed by one of the same file there,
/// and untimed runs come before each of them.
///
/// # Errors
/// A model with a node that is not known, a file that cannot be read, memory that the device does not have; ONNX
/// Runtime ending during a run.
///
/// # Panics
/// If there are no runs.
pub fn measure(
    model: Arc<Model>,
    inputs: &[(String, HostValue)],
    runs: usize,
    threads: Option<usize>,
    beside: Option<&Path>,
) -> Result<Measured> {
    /// A pause in which the threads of one side come to rest before the other side runs: threads of ONNX Runtime spin
    /// for 40 ms.
    const REST: Duration = Duration::from_millis(100);
    let (warm_up, profiled) = (runs.min(2), runs.min(2));
    assert!(runs > 0, "a median needs a run");
    let backend = cpu_with(threads)?;
    let threads = backend.threads();
    let session = Session::new(model, Box::new(backend))?;
    let run = || session.run(inputs.to_vec()).map(|_| ());
    for _ in 0..warm_up {
        run()?;
    }
    let given: Option<Vec<(String, Array)>> = inputs
        .iter()
        .map(|(name, value)| Some((name.clone(), array(value.tensor()?)?)))
        .collect();
    let mut rival = match (beside, given) {
        (None, _) => None,
        (Some(path), Some(given)) => Some(OnnxRuntime::start(path, &given, threads)?),
        (Some(_), None) => Some(Rival::Absent("its inputs are no arrays of numbers".to_string())),
    };
    let (mut run_ms, mut their_ms) = (Vec::with_capacity(runs), Vec::new());
    for _ in 0..runs {
        if rival.is_some() {
            warmed_up(run)?;
        }
        let start = Instant::now();
        run()?;
        run_ms.push(1e3 * start.elapsed().as_secs_f64());
        if let Some(Rival::Runs(rival)) = &mut rival {
            sleep(REST);
            warmed_up(|| rival.run().map(|_| ()))?;
            their_ms.push(rival.run()?);
            sleep(REST);
        }
    }
    let mut ratios: Vec<f64> = run_ms.iter().zip(&their_ms).map(|(own, theirs)| own / theirs).collect();
    [&mut run_ms, &mut their_ms, &mut ratios]
        .into_iter()
        .for_each(|numbers| numbers.sort_by(f64::total_cmp));
    let beside = rival.map(|rival| match rival {
        Rival::Runs(rival) => Ok(Beside {
            version: rival.version().to_string(),
            run_ms: their_ms,
            ratios,
        }),
        Rival::Absent(why) => Err(why),
    });
    session.with_programs(|backend, programs| programs.iter().for_each(|id| backend.set_profiling(*id, true)));
    for _ in 0..profiled {
        run()?;
    }
    let compile_ms = 1e3 * session.compile_time().as_secs_f64();
    Ok(session.with_programs(|backend, programs| {
        let plans = programs.iter().map(|id| (backend.plan(*id), backend.node_seconds(*id)));
        let plans: Vec<(Arc<Plan>, Vec<f64>)> = plans.collect();
        let (norm_share, norms) = share_of_norms(&plans);
        Measured {
            run_ms,
            beside,
            flops: plans.iter().map(|(plan, _)| plan.flops().0).sum(),
            peak_flops: backend.peak_flops(),
            norm_share,
            norms,
            operations: by_operation(&plans),
            compile_ms,
            arena_bytes: plans.iter().map(|(plan, _)| plan.arena_bytes()).max().unwrap_or(0),
            parameter_bytes: plans.iter().map(|(plan, _)| plan.state_bytes()).sum(),
            threads,
        }
    }))
}

/// Runs something for 50 ms, at least once: cores that were idle have their clock rate, threads their cores.
fn warmed_up(mut run: impl FnMut() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    run()?;
    while start.elapsed() < Duration::from_millis(50) {
        run()?;
    }
    Ok(())
}

/// The part of the time in kernels that norms take, and how many there are.
fn share_of_norms(plans: &[(Arc<Plan>, Vec<f64>)]) -> (f64, usize) {
    let norms = Norms::new();
    let nodes = plans
        .iter()
        .flat_map(|(plan, seconds)| plan.graph().nodes.iter().zip(seconds));
    let of_norms = nodes.filter(|(node, _)| norms.has(node.op.as_ref()));
    let (count, sum) = of_norms.fold((0, 0.0), |(count, sum), (_, seconds)| (count + 1, sum + seconds));
    (sum / all_seconds(plans), count)
}

/// The time in kernels of all programs.
fn all_seconds(plans: &[(Arc<Plan>, Vec<f64>)]) -> f64 {
    let all = plans.iter().flat_map(|(_, seconds)| seconds);
    all.sum::<f64>().max(f64::MIN_POSITIVE)
}

/// The parts of the time in kernels that operations take, the largest first.
fn by_operation(plans: &[(Arc<Plan>, Vec<f64>)]) -> Vec<OperationTime> {
    let all = all_seconds(plans);
    let mut operations: BTreeMap<&'static str, OperationTime> = BTreeMap::new();
    for (node, seconds) in plans
        .iter()
        .flat_map(|(plan, seconds)| plan.graph().nodes.iter().zip(seconds))
    {
        let name = node.op.name();
        let nothing = OperationTime {
            name,
            nodes: 0,
            share: 0.0,
        };
        let operation = operations.entry(name).or_insert(nothing);
        operation.nodes += 1;
        operation.share += seconds / all;
    }
    let mut operations: Vec<OperationTime> = operations.into_values().collect();
    operations.sort_by(|a, b| b.share.total_cmp(&a.share));
    operations
}

/// The definition of a norm: an operation that subtracts the mean of a row, or the operation that takes its place where
/// that mean is zero.
struct Norms {
    without_mean: HashSet<&'static str>,
}

impl Norms {
    fn new() -> Norms {
        let rule = LayerNorm { eps: 0.0 }.when_centred();
        let operations = rule.iter().flat_map(|rule| [rule.norm.name(), rule.compressed.name()]);
        Norms {
            without_mean: operations.collect(),
        }
    }

    fn has(&self, op: &dyn Op) -> bool {
        op.when_centred().is_some() || self.without_mean.contains(op.name())
    }
}
