//! The benchmark of updates: steps of training with each optimizer, batch size and placement of the update (the
//! dissertation's figures 3.13 to 3.17).

use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_compile::Placement;
use lessen_nn::OptimizerConfig;
use lessen_train::TrainerOptions;
use serde_json::{Value, json};

use super::step::{Measured, Planning, chosen, measure_options};

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
    /// Times, memory, and numbers of parameters and layers.
    pub measured: Measured,
}

impl Row {
    fn to_json(&self) -> Value {
        let m = &self.measured;
        let [forward, backward, update] = m.phase_ms;
        json!({
            "case": self.case,
            "optimizer": self.optimizer,
            "batch": self.batch,
            "placement": self.placement.word(),
            "step_ms": m.median_ms(),
            "step_ms_min": m.step_ms.first(),
            "step_ms_max": m.step_ms.last(),
            "forward_ms": forward,
            "backward_ms": backward,
            "update_ms": update,
            "parameters": m.parameters,
            "layers": m.layers,
            "peak_bytes": m.planned_peak,
        })
    }
}

/// Measures all that is asked for, and returns what `--json` prints.
///
/// # Errors
/// A sentence when a letter or an optimizer is unknown, or a step fails; the error of `report`.
pub fn run(updates: &Updates, mut report: impl FnMut(&Row) -> Result<()>) -> Result<Value> {
    let mut rows = Vec::new();
    let planning = Planning::default();
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
                        ..planning.options(&case)
                    };
                    let measured = measure_options(&case, updates.steps, &options, planning.compiler(&case)?)?;
                    let row = Row {
                        case: case.letter,
                        optimizer: name.to_string(),
                        batch,
                        placement,
                        measured,
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
