//! The benchmark of updates: steps of training with each optimizer, batch size and placement of the update (the
//! dissertation's figures 3.14 to 3.17).

use std::time::Instant;

use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_compile::Placement;
use lessen_cpu::CpuBackend;
use lessen_device::Host;
use lessen_graph::{InputKind, Type};
use lessen_jobs::training::median;
use lessen_nn::OptimizerConfig;
use lessen_nn::names::is_reserved;
use lessen_train::{StepGraphs, Trainer, TrainerOptions};
use serde_json::{Value, json};

use super::step::{Planning, chosen, fill};
use super::step_cases::Case;

/// An optimizer's name, and its settings.
type Optimizer = (&'static str, fn() -> OptimizerConfig);

/// The optimizers that can be measured.
const OPTIMIZERS: [Optimizer; 9] = [
    ("sgd", || sgd(0.0)),
    ("momentum", || sgd(0.9)),
    ("adagrad", || OptimizerConfig::adagrad(0.0)),
    ("adadelta", || OptimizerConfig::adadelta(0.0)),
    ("rmsprop", || OptimizerConfig::rmsprop(0.0)),
    ("adam", || OptimizerConfig::adam(0.0)),
    ("adamw", || OptimizerConfig::adamw(0.01)),
    ("adamw_8bit", || OptimizerConfig::adamw_8bit(0.01)),
    ("lion", || OptimizerConfig::lion(0.0)),
];

/// The placements in the order in which they are measured.
pub const PLACEMENTS: [Placement; 4] = [
    Placement::Separate,
    Placement::BackwardFused,
    Placement::ForwardFused,
    Placement::Planned,
];

fn sgd(momentum: f64) -> OptimizerConfig {
    OptimizerConfig::Sgd {
        momentum,
        nesterov: false,
        weight_decay: 0.0,
    }
}

/// Which steps are measured.
#[derive(Clone, Debug)]
pub struct Updates {
    /// Letters of cases.
    pub cases: Vec<String>,
    /// Names of optimizers.
    pub optimizers: Vec<String>,
    /// Batch sizes.
    pub batches: Vec<usize>,
    /// Timed steps of each.
    pub steps: usize,
    /// The greatest norm of the gradient; none does not clip.
    pub clip_norm: Option<f64>,
}

/// Steps of one placement.
#[derive(Clone, Debug)]
pub struct Row {
    /// Letter of the case.
    pub case: &'static str,
    /// The optimizer's name.
    pub optimizer: String,
    /// Examples in a batch.
    pub batch: usize,
    /// When updates run.
    pub placement: Placement,
    /// The median step in milliseconds.
    pub step_ms: f64,
    /// Bytes of states, constants and the largest arena.
    pub peak: usize,
}

impl Row {
    fn to_json(&self) -> Value {
        json!({
            "case": self.case,
            "optimizer": self.optimizer,
            "batch": self.batch,
            "placement": self.placement.word(),
            "step_ms": self.step_ms,
            "peak_bytes": self.peak,
        })
    }
}

/// Measures all that is asked for, and returns what `--json` prints.
///
/// # Errors
/// A sentence when a letter or an optimizer is unknown, or a step fails; the error of `report`.
pub fn run(updates: &Updates, mut report: impl FnMut(&Row) -> Result<()>) -> Result<Value> {
    let mut rows = Vec::new();
    let cases = chosen(&updates.cases)?;
    let optimizers: Vec<_> = updates
        .optimizers
        .iter()
        .map(|name| found(name))
        .collect::<Result<_>>()?;
    for case in &cases {
        for &batch in &updates.batches {
            let case = case.with_batch(batch);
            for (name, optimizer) in &optimizers {
                for placement in PLACEMENTS {
                    let options = TrainerOptions {
                        optimizer: optimizer(),
                        placement,
                        clip_norm: updates.clip_norm,
                        ..Planning::default().options(&case)
                    };
                    let (step_ms, peak) = measured(&case, options, updates.steps)?;
                    let row = Row {
                        case: case.letter,
                        optimizer: name.to_string(),
                        batch,
                        placement,
                        step_ms,
                        peak,
                    };
                    report(&row)?;
                    rows.push(row.to_json());
                }
            }
        }
    }
    Ok(Value::Array(rows))
}

fn found(name: &str) -> Result<Optimizer> {
    let known = OPTIMIZERS.iter().find(|(known, _)| *known == name);
    known.copied().ok_or_else(|| {
        let names: Vec<&str> = OPTIMIZERS.iter().map(|(name, _)| *name).collect();
        Error::user(format!(
            "there is no optimizer `{name}`; take from {}",
            names.join(", ")
        ))
    })
}

/// The median time of a step in milliseconds, after two that warm up, and the planned peak.
fn measured(case: &Case, options: TrainerOptions, steps: usize) -> Result<(f64, usize)> {
    let graph = StepGraphs::new(&options, |cx| case.loss(cx))?.step;
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
    let mut trainer = Trainer::new(Box::new(CpuBackend::from_env()?), options, |cx| case.loss(cx))?;
    let mut times = Vec::with_capacity(steps);
    for i in 0..2 + steps {
        let start = Instant::now();
        trainer.step(&arrays)?;
        if i >= 2 {
            times.push(1e3 * start.elapsed().as_secs_f64());
        }
    }
    Ok((median(times), trainer.peak().planned))
}
