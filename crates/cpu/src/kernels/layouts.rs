//! Layouts that a kernel reads.

/// The layouts in which a kernel reads an input, besides dense layouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reads {
    /// Dense layouts only.
    Dense,
    /// Rows whose columns lie one stride apart.
    Rows,
    /// Such rows that also lie one stride apart.
    Matrix,
    /// Layouts whose last axis is dense.
    DenseLastAxis,
    /// Matrices whose rows or columns are dense.
    Runs,
    /// All layouts.
    Any,
}
