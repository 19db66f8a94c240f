//! What the user may choose about a plan.

/// When updates of parameters run. It changes no bit of any result.
///
/// Which updates are delayed to the next step is the work of [`delay`](crate::passes::delay()); a plan follows from the
/// graph, and only [`Placement::Separate`] makes it another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Placement {
    /// All updates after the whole backward phase.
    Separate,
    /// Each update as soon as its gradient is complete and the old parameter has been read for the last time, so that
    /// the gradient's memory is free at once.
    #[default]
    BackwardFused,
    /// The updates of a step at the beginning of the next one, each just before forward reads the new parameter.
    ForwardFused,
    /// Each parameter's own placement, the one or the other of the two fused ones, as the cost of plans says.
    Planned,
}

/// The dtype that products of matrices read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Precision {
    /// That of the program.
    #[default]
    F32,
    /// `bf16`, added up in `f32`; everything else is as in the program. See [`mixed`](crate::passes::mixed).
    Bf16,
}

/// Who decides what backward keeps and what it computes again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Policy {
    /// The memory planner, for the least time within the budget.
    #[default]
    Planner,
    /// Everything that backward reads is kept.
    KeepAll,
    /// Values that row-wise operations compute are computed again, behind short chains; products are kept.
    RowWise,
    /// Of each block of the graph only the value that leads into it is kept.
    EveryBlock,
    /// Of about as many blocks as there are such segments only the first value is kept; backward computes a segment
    /// again as a whole (Chen et al. 2016, "Training deep nets with sublinear memory cost").
    SquareRoot,
    /// What GELU and norms compute is computed again from what they read, as Tempo drops one of the two (Andoorveedu et
    /// al. 2022, "Tempo: Accelerating Transformer-Based Model Training through Memory Footprint Reduction"); everything
    /// else is kept.
    Tempo,
    /// Every block whose input follows from its output is inverted, and all that it computes is computed again; of the
    /// others everything is kept. Without [`Options::allowed_error`] none is inverted.
    InvertAll,
    /// Blocks whose input follows from their output are inverted as far as the budget asks for, for the least time: a
    /// knapsack of blocks. Of the others everything is kept.
    Knapsack,
}

/// The times of operations that the memory planner goes by. They change no bit of any result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CostModel {
    /// The device's rates, [`Target::rates`](crate::Target::rates): plans are the same on every machine.
    #[default]
    Analytic,
    /// What was measured on this machine, [`Target::measured`](crate::Target::measured), where anything was.
    Measured,
}

/// Options of [`compile`](crate::compile).
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// When updates run.
    pub placement: Placement,
    /// What products of matrices read.
    pub precision: Precision,
    /// The most bytes that states, constants and arena may take together; none for no limit.
    pub budget: Option<usize>,
    /// Who decides about memory. A fixed policy has one plan, which the budget admits or not.
    pub policy: Policy,
    /// The greatest declared error of a value that backward has in an inexact way, inverted or rounded; 0 for exact
    /// ways alone, which change no bit of any result.
    pub allowed_error: f64,
    /// The times that the memory planner goes by.
    pub cost: CostModel,
}
