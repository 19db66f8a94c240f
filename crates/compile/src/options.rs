//! Options of compiling.

use std::sync::Arc;

use lessen_graph::Carrier;

lessen_base::words! {
    /// When updates of parameters run. It changes no bit of any result.
    ///
    /// [`delay`](crate::passes::delay()) moves updates to the next training step, so a plan follows from the graph; of
    /// the placements only [`Placement::Separate`] changes how a graph is planned.
    #[derive(Hash, Default)]
    pub enum Placement {
        /// All updates after the whole backward phase.
        Separate = "separate",
        /// Each update as soon as its gradient is complete and the old parameter has been read for the last time, so
        /// that the gradient's memory is free at once.
        #[default]
        BackwardFused = "backward-fused",
        /// The updates of a training step at the beginning of the next one, each just before forward reads the new
        /// parameter.
        ForwardFused = "forward-fused",
        /// One of the two fused placements for each parameter, as the cost of plans decides.
        Planned = "planned",
    }
}

/// The dtype that products of matrices read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Precision {
    /// The dtype of the program.
    #[default]
    F32,
    /// `bf16`, added up in `f32`; everything else is as in the program. See [`mixed`](crate::passes::mixed).
    Bf16,
    /// Codes of 8 bits, added up as integers, where a matrix is stored as codes; everything else is as in the program.
    /// For inference. See [`integers`](crate::passes::integers).
    Int8,
    /// Codes of 8 bits of rows and of 4 bits of matrices, where a matrix is stored as such codes; everything else is as
    /// in the program. For inference. See [`integers`](crate::passes::integers).
    Int4,
}

/// The precisions of training; codes of 8 and 4 bits are for inference.
impl lessen_base::word::Word for Precision {
    const WORDS: &'static [&'static str] = &["f32", "bf16"];

    fn word(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::Int8 => "int8",
            Precision::Int4 => "int4",
        }
    }

    fn from_word(word: &str) -> Option<Precision> {
        match word {
            "f32" => Some(Precision::F32),
            "bf16" => Some(Precision::Bf16),
            _ => None,
        }
    }
}

/// Rule that decides which forward values backward keeps and which it recomputes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Policy {
    /// The memory planner, for the least time within the budget.
    #[default]
    Planner,
    /// Everything that backward reads is kept.
    KeepAll,
    /// Values that row-wise operations compute are recomputed, where the chain of operations is short; products are
    /// kept.
    RowWise,
    /// Each block keeps its entry alone.
    EveryBlock,
    /// Segments of about as many blocks as there are segments keep their first entry alone; backward recomputes a
    /// segment as a whole (Chen et al. 2016, "Training deep nets with sublinear memory cost").
    SquareRoot,
    /// Outputs of GELU and norms are recomputed from their inputs, as Tempo drops one of the two (Andoorveedu et al.
    /// 2022, "Tempo: Accelerating Transformer-Based Model Training through Memory Footprint Reduction"); everything
    /// else is kept.
    Tempo,
    /// Every block with an inversion is inverted, and all its other values are recomputed; other blocks keep
    /// everything. Without [`Options::allowed_error`] no block is inverted.
    InvertAll,
    /// Blocks with an inversion are inverted as far as the budget needs, for the least time: a knapsack of blocks.
    /// Other blocks keep everything.
    Knapsack,
}

lessen_base::words! {
    /// The times of operations that the memory planner assumes. They change no bit of any result.
    #[derive(Hash, Default)]
    pub enum CostSource {
        /// The device's rates, [`CostModel::rates`](crate::CostModel::rates): plans are the same on every machine.
        #[default]
        Analytic = "analytic",
        /// Times measured on this machine, [`CostModel::measured`](crate::CostModel::measured), where there are any.
        Measured = "measured",
    }
}

/// Options of [`compile`](crate::compile).
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// When updates run.
    pub placement: Placement,
    /// The dtype that products of matrices read.
    pub precision: Precision,
    /// The most bytes that states, constants and arena may take together; none for no limit.
    pub budget: Option<usize>,
    /// How memory is planned. A fixed policy has one plan, which fits the budget or not.
    pub policy: Policy,
    /// The greatest declared error of a value that backward gets inexactly, by inversion or rounding; 0 for exact
    /// values alone, which change no bit of any result.
    pub allowed_error: f64,
    /// The times that the memory planner assumes.
    pub cost: CostSource,
    /// What carries operations of several ranks; none where a graph has no such operations.
    pub carrier: Option<Arc<dyn Carrier>>,
    /// Whether a program waits for the results of other ranks as soon as their messages are sent, which takes less
    /// memory and more time than computing meanwhile. [`compile`](crate::compile) does so where a budget needs it.
    pub waits_at_once: bool,
}
