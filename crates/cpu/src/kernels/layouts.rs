//! Layouts in which kernels read their inputs.
//!
//! The entry of a kernel declares them once for each input. The planner copies what lies otherwise, loading refuses a
//! plan without the copy, and a kernel gets an input only by an accessor that asks for no more than was declared.

/// The layouts in which a kernel reads an input. Dense ones are always among them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reads {
    /// Dense layouts only.
    Dense,
    /// Rows whose columns lie one stride apart.
    Rows,
    /// Rows that are runs of elements.
    Runs,
    /// Rows that lie one stride apart, whose columns lie one stride apart.
    Matrix,
    /// Rows that lie one stride apart and are runs of elements.
    MatrixOfRuns,
    /// Matrices whose rows are runs of elements, or whose columns are.
    RowsOrColumns,
    /// Layouts whose last axis is dense.
    DenseLastAxis,
    /// All layouts.
    Any,
    /// None: the kernel has packed the input in a form of its own; see [`Fixed`](super::kernel::Fixed).
    Packed,
}

impl Reads {
    /// The layouts as the planner knows them, for an input of `rows` rows.
    pub(crate) fn planned(self, rows: usize) -> lessen_compile::Reads {
        match self {
            Reads::Dense | Reads::Packed => lessen_compile::Reads::Dense,
            Reads::Rows => lessen_compile::Reads::Rows(rows),
            Reads::Runs => lessen_compile::Reads::Runs(rows),
            Reads::Matrix => lessen_compile::Reads::Matrix(rows),
            Reads::MatrixOfRuns => lessen_compile::Reads::MatrixOfRuns(rows),
            Reads::RowsOrColumns => lessen_compile::Reads::RowsOrColumns(rows),
            Reads::DenseLastAxis => lessen_compile::Reads::DenseLastAxis,
            Reads::Any => lessen_compile::Reads::Any,
        }
    }

    /// Whether all these layouts are among others.
    pub(crate) fn are_among(self, others: Reads) -> bool {
        use Reads::{Any, Dense, DenseLastAxis, Matrix, MatrixOfRuns, Packed, Rows, RowsOrColumns, Runs};
        match self {
            Dense => others != Packed,
            MatrixOfRuns => !matches!(others, Dense | Packed),
            RowsOrColumns => matches!(others, RowsOrColumns | Matrix | Rows | Any),
            Matrix => matches!(others, Matrix | Rows | Any),
            Runs => matches!(others, Runs | Rows | DenseLastAxis | Any),
            Rows => matches!(others, Rows | Any),
            DenseLastAxis => matches!(others, DenseLastAxis | Any),
            Any => others == Any,
            Packed => others == Packed,
        }
    }

    /// Those of these layouts in which rows are runs of elements.
    pub(crate) fn with_runs(self) -> Reads {
        match self {
            Reads::Rows => Reads::Runs,
            Reads::Matrix | Reads::RowsOrColumns => Reads::MatrixOfRuns,
            reads => reads,
        }
    }

    /// Lets a kernel read an input for which it has declared these layouts as if it lay in one of the layouts `asked`.
    ///
    /// # Panics
    /// If it may lie otherwise.
    #[track_caller]
    pub(crate) fn admit(self, asked: Reads) {
        assert!(
            self.are_among(asked),
            "a kernel reads as {asked:?} what it has declared to read as {self:?}"
        );
    }
}
