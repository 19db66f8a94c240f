//! What the user may choose about a plan.

/// When the update of a parameter runs. It changes no bit of any result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Placement {
    /// All updates after the whole backward phase.
    Separate,
    /// Each update as soon as its gradient is complete and the old parameter has been read for the last time, so that
    /// the gradient's memory is free at once.
    #[default]
    BackwardFused,
}

/// Options of [`compile`](crate::compile).
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// When updates run.
    pub placement: Placement,
    /// The most bytes that states, constants and arena may take together; none for no limit.
    pub budget: Option<usize>,
}
