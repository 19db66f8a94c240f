//! The flags of benchmarks of plans: the cases, and the options of planning.

use clap::Args;
use lessen::bench::step::Planning;
use lessen_base::word::Word;
use lessen_compile::{CostSource, Precision};

/// Flags that choose cases and say how they are planned.
#[derive(Args)]
pub struct PlanningArgs {
    /// Cases, by letter
    #[arg(long, value_delimiter = ',', default_value = "a,b,c")]
    pub case: Vec<String>,
    /// Dtype of the operands of matrix products: f32 or bf16
    #[arg(long, default_value = "f32", value_parser = ["f32", "bf16"])]
    precision: String,
    /// Greatest error of values that the memory planner may invert or round
    #[arg(long, default_value_t = 0.0)]
    allow_error: f64,
    /// Cost model of the memory planner: analytic or measured
    #[arg(long, default_value = "analytic", value_parser = ["analytic", "measured"])]
    cost: String,
    /// Examples in a batch, instead of the case's own
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// How layer norms are computed: layer, rms, crms or auto
    #[arg(long, default_value = "layer", value_parser = ["layer", "rms", "crms", "auto"])]
    norm: String,
}

impl PlanningArgs {
    /// How cases are planned, without a budget.
    pub fn planning(&self) -> Planning {
        Planning {
            precision: match self.precision.as_str() {
                "bf16" => Precision::Bf16,
                _ => Precision::F32,
            },
            allowed_error: self.allow_error,
            cost: CostSource::from_word(&self.cost).expect("the word is one of the choices"),
            batch: self.batch.map(|batch| batch as usize),
            norm: self.norm.parse().expect("the word is one of the choices"),
            ..Planning::default()
        }
    }
}
